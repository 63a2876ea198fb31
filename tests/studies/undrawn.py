"""Studies without their charts, which take most of the time; some tests draw them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from whence.plot.palette import THEMES


@contextmanager
def undrawn() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whence.studies.frame.write._charts", lambda stem, shown, interactive: dict.fromkeys(THEMES, ""))
        yield
