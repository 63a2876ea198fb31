"""The flow view, or an explained prediction, in a notebook: a widget that draws one Dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.errors import BadInput, Unsupported
from whence.page import why
from whence.page.bundle import HERE, script
from whence.page.fields import PER_HEAD, PER_LAYER
from whence.page.payload import payload
from whence.plot import flattened
from whence.plot.palette import FURNITURE, THEMES
from whence.plot.why import is_explained

if TYPE_CHECKING:
    import xarray

ROOT = ".whence-widget"


def widget(ds: xarray.Dataset) -> Any:
    """A widget with the flow view of this Dataset: links by any of its maps, a threshold, a token to follow.

    Of what whence.why gives, it is the text shaded by what each token gave, layer by layer.

    >>> ds = whence.measure(whence.load(), "Paris is a city.", ["attention"])
    >>> type(whence.widget(ds)).__name__
    'Flow'
    """
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError as error:
        raise Unsupported(f"The widget needs the package {error.name}: pip install 'whence[notebook]'.") from error

    class Flow(anywidget.AnyWidget):
        _esm = module()
        _css = style()
        payload = traitlets.Dict().tag(sync=True)

    class Why(Flow):
        _esm = module("why")

    return Why(payload=why.payload(ds)) if is_explained(ds) else Flow(payload=payload(_maps(ds)))


def _maps(ds: xarray.Dataset) -> xarray.Dataset:
    """The maps from sources to targets alone."""
    ds = flattened(ds)
    maps = [name for name in ds.data_vars if set(ds[name].dims) in (set(PER_LAYER), set(PER_HEAD))]
    if not maps:
        raise BadInput("The Dataset has no map from sources to targets; measure attention, norms or contribution.")
    return ds[maps]


def module(entry: str = "widget") -> str:
    """The view as one ES module."""
    return f"{script(f'{entry}.js')}export default {{ render: module_{entry}.render }};\n"


def style() -> str:
    """The sheet of the page, held inside the widget by nesting."""
    sheet = (HERE / "page.css").read_text(encoding="utf-8")
    themes = {theme: "".join(f"--{name}:{color};" for name, color in FURNITURE[theme].items()) for theme in THEMES}
    light, dark = f"{ROOT}{{{themes['light']}}}", f"{ROOT}[data-theme=dark]{{{themes['dark']}color-scheme:dark;}}"
    base = f"{ROOT}{{background:var(--paper);color:var(--ink);font:14px/1.5 system-ui,sans-serif;padding:8px 12px;}}"
    return f"{light}\n{dark}\n{base}\n{ROOT}{{\n{sheet}\n}}\n"
