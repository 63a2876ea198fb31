"""The flow view, or an explained prediction, in a notebook: a widget that draws one Dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.errors import BadInput, Unsupported
from whence.page import still, why
from whence.page.bundle import HERE, script, variables
from whence.page.fields import PER_HEAD, PER_LAYER
from whence.page.payload import payload
from whence.plot import flattened
from whence.plot.stacks import is_tree
from whence.plot.why import is_explained

if TYPE_CHECKING:
    import xarray

ROOT = ".whence-widget"


def widget(ds: xarray.Dataset) -> Any:
    """A view for notebooks: the flow of a measured text, or the sources of an explained prediction.

    Args:
        ds: what `whence.measure` or `whence.why` gives

    Returns:
        A widget. Of measures it draws the flow, with links by any map of the Dataset, a threshold, and a token to
        follow; by the decomposition if the Dataset has it, which is exact, while other maps are multiplied over layers.
        Of a prediction it draws the text shaded by what each token gave, layer by layer. Where no script runs,
        as in a notebook saved without the state of its widgets, a picture and plain text stand in its place.

    Examples:
        >>> ds = whence.measure(whence.load(), "Paris is a city.", ["decomposition"])
        >>> type(whence.widget(ds)).__name__
        'Flow'
    """
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError as error:
        raise Unsupported(f"The widget needs the package {error.name}: pip install 'whence[notebook]'.") from error
    if is_tree(ds):
        raise BadInput(
            "A widget draws one text, and a tree of two was given; give one of its parts, such as"
            " tree['encoder'].to_dataset(), or ask for the page of both, whence.report."
        )
    if not hasattr(ds, "data_vars"):
        raise BadInput(f"A widget draws what whence.measure or whence.why gives, and {type(ds).__name__} was given.")
    drawn = why.payload(ds) if is_explained(ds) else _flow(ds)
    picture = still.bundle(still.of(ds, next(iter(drawn.get("flows", [])), "")))

    class Flow(anywidget.AnyWidget):
        _esm = module()
        _css = style()
        payload = traitlets.Dict().tag(sync=True)

        def _repr_mimebundle_(self, **options: Any) -> Any:
            """The widget, and what stands in its place where no script runs: a picture, and plain text."""
            shown = super()._repr_mimebundle_(**options)
            data, more = shown if isinstance(shown, tuple) else (shown, {})
            return {**(data or {}), **picture}, more

    class Why(Flow):
        _esm = module("why")

    return Why(payload=drawn) if is_explained(ds) else Flow(payload=drawn)


def _flow(ds: xarray.Dataset) -> dict[str, Any]:
    """The maps from sources to targets alone."""
    ds = flattened(ds)
    maps = [name for name in ds.data_vars if set(ds[name].dims) in (set(PER_LAYER), set(PER_HEAD))]
    if not maps:
        raise BadInput("The Dataset has no map from sources to targets; measure decomposition, norms or attention.")
    drawn = payload(ds[maps])
    if not drawn["flows"]:
        raise BadInput("None of the maps has all targets in all layers; measure decomposition or contribution, of all.")
    return drawn


def module(entry: str = "widget") -> str:
    """The view as one ES module."""
    return f"{script(f'{entry}.js')}export default {{ render: module_{entry}.render }};\n"


def style() -> str:
    """The sheet of the page, held inside the widget by nesting."""
    sheet = (HERE / "page.css").read_text(encoding="utf-8")
    light = f"{ROOT}{{{variables('light')}}}"
    dark = f"{ROOT}[data-theme=dark]{{{variables('dark')}color-scheme:dark;}}"
    base = f"{ROOT}{{background:var(--paper);color:var(--ink);font:14px/1.5 system-ui,sans-serif;padding:8px 12px;}}"
    return f"{light}\n{dark}\n{base}\n{ROOT}{{\n{sheet}\n}}\n"
