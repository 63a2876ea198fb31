"""Whether the packages that studies need beyond whence's own are there; one sentence where they are not."""

from importlib.util import find_spec

from whence.errors import Unsupported

PACKAGES = ("altair", "vl_convert", "scipy", "statsmodels")

if missing := [name for name in PACKAGES if find_spec(name) is None]:
    raise Unsupported(f"Studies and reports of runs need {missing[0]}: pip install 'whence[plot,stats]'.")
