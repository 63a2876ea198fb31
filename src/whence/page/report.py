"""One sentence as one HTML file that opens offline: the data, the pictures and nothing from anywhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from whence.errors import BadInput
from whence.page import whither, why
from whence.page.bundle import script, style
from whence.page.payload import payload
from whence.page.templates import rendered
from whence.plot.lens import is_read_out
from whence.plot.stacks import is_tree, joined
from whence.plot.why import is_explained

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import xarray


def report(
    ds: xarray.Dataset | xarray.DataTree, path: str | os.PathLike[str], reasons: xarray.Dataset | None = None
) -> Path:
    """Writes a page about one text: one file that opens offline.

    Args:
        ds: what `whence.measure`, `whence.why`, or `read` or `trace` of a lens gives; of an encoder-decoder the whole
            tree
        path: where the page is written
        reasons: what `whence.why` gives for the same text, with which the page then begins

    Returns:
        The path of the page.

    Examples:
        >>> ds = whence.measure(whence.load(), "The keys to the cabinet [MASK] on the table.", ["attention", "mixing"])
        >>> whence.report(ds, "page.html").name
        'page.html'
    """
    file = _file(path)
    ds = joined(ds) if is_tree(ds) else cast("xarray.Dataset", ds)
    if is_explained(ds) or is_read_out(ds):
        return _written(file, disposed(ds) if is_read_out(ds) else explained(ds))
    missing = {"layer", "target"} - set(getattr(ds, "dims", ()))
    if missing or not hasattr(ds, "data_vars"):
        raise BadInput(
            "A page shows what whence.measure, whence.why or a lens gives, with its layers and tokens, and"
            f" {_what(ds, missing)} was given."
        )
    if "largest" in ds.dims:
        raise BadInput(
            f"A page draws whole rows, and the {ds.sizes['largest']} largest sources alone were kept; measure without"
            " top=, or fewer rows (targets=)."
        )
    if reasons is not None and not is_explained(reasons):
        raise BadInput(f"The reasons are what whence.why gives, and {_what(reasons, {'predicted'})} was given.")
    return _written(file, page(ds, reasons=reasons))


def _file(path: str | os.PathLike[str]) -> Path:
    try:
        file = Path(path)
    except TypeError:
        raise BadInput(f"A page is written to a path, and {path!r:.40} was given.") from None
    if not file.parent.is_dir():
        raise BadInput(f"{str(path)!r} cannot be written: there is no folder {str(file.parent)!r}.")
    return file


def _written(file: Path, html: str) -> Path:
    try:
        file.write_text(html, encoding="utf-8")
    except OSError as error:  # a folder, no permission, a full disk
        raise BadInput(f"{str(file)!r} cannot be written: {error.strerror}.") from error
    except ValueError as error:  # a character that no name may have
        raise BadInput(f"{str(file)!r} cannot be written: {error}.") from error
    return file


def _what(ds: object, missing: set[str]) -> str:
    if not hasattr(ds, "data_vars"):
        return type(ds).__name__
    return f"a Dataset without the axis {' and '.join(sorted(missing))}"


def page(
    ds: xarray.Dataset,
    beside: Mapping[str, xarray.Dataset] | None = None,
    state: str = "",
    reasons: xarray.Dataset | None = None,
    edited_reasons: xarray.Dataset | None = None,
) -> str:
    """The whole page as text; the content security policy lets only this style and this script run.

    `beside` holds what the sentence is looked at with: `edited`, a changed sentence; `other`, the same sentence in
    another model. `reasons` is what whence.why gives for the sentence, with which the page begins, `edited_reasons`
    what it gives for the changed one. `state` is what is selected when the page opens, as in an address after #.
    """
    others = {name: payload(other) for name, other in (beside or {}).items()}
    if edited_reasons is not None and "edited" in others:
        others["edited"] |= {"why": why.payload(edited_reasons)}
    data = payload(ds) | {"state": state, "beside": others}
    data |= {} if reasons is None else {"why": why.payload(reasons)}
    return _rendered(data, "pair" if data["alignment"] else "page")


def explained(ds: xarray.Dataset) -> str:
    """The whole page of what whence.why gives, as text."""
    return _rendered(why.payload(ds), "why")


def disposed(ds: xarray.Dataset) -> str:
    """The whole page of what a lens reads or traces, as text."""
    return _rendered(whither.payload(ds), "whither")


def _rendered(data: dict[str, Any], entry: str) -> str:
    text = " ".join(token["shown"] for token in data["tokens"])
    code = f"{script(f'{entry}.js')}module_{entry}.boot();\n"
    return rendered("page.html", title=data["finding"], text=text, style=style(), script=code, data=_inert(data))


def _inert(data: dict[str, Any]) -> str:
    """JSON that no text inside can end: `<` never appears in it."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
