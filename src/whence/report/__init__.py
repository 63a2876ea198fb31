"""One sentence as one HTML file that opens offline: the data, the pictures and nothing from anywhere else."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.plot import MIXING_ORDER, SOURCE_ORDER, finding, label, legible
from whence.plot.palette import DIVERGING, FURNITURE, SEQUENTIAL, THEMES, Theme, measure_color

if TYPE_CHECKING:
    from collections.abc import Callable

    import xarray

HERE = Path(__file__).parent
DIMS = ("method", "layer", "head", "target", "source")
PER_HEAD = ("layer", "head", "target", "source")
PER_LAYER = ("layer", "target", "source")

# Which panel needs which: it is shown when one of these names, or a variable with one of these dims, is there.
# A panel is the module of the same name in this folder, with one `render(container, data, state)`.
PANELS: dict[str, tuple[str | tuple[str, ...], ...]] = {
    "left": ("mixing", "contribution", "attention"),
    "whence": (PER_LAYER, "attention"),
    "maps": (PER_HEAD, PER_LAYER),
    "heads": (PER_HEAD,),
}

# Arrays up to this many values are kept in float32; larger ones as int16 steps of a ten-thousandth of each map's
# largest value, which a screen cannot tell apart: 200 tokens x 12 layers x 12 heads shrink from 23 MB to 8 at most.
EXACT_UP_TO = 2**16
STEPS = 10_000
MISSING = -(2**15)  # NaN among int16 steps


def report(ds: xarray.Dataset, path: str | os.PathLike[str]) -> Path:
    """The path of the page written for this sentence."""
    written = Path(path)
    written.write_text(page(ds), encoding="utf-8")
    return written


def page(ds: xarray.Dataset) -> str:
    """The whole page as text; the content security policy lets only this style and this script run."""
    data = payload(ds)
    style, script = _style(), _script()
    return Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(f"{data['finding']} · whence"),
        finding=html.escape(data["finding"]),
        text=html.escape(" ".join(token["shown"] for token in data["tokens"])),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=_inert(data),
    )


def payload(ds: xarray.Dataset) -> dict[str, Any]:
    """Everything the page draws, ready for JSON; the page embeds it and a server can send it."""
    drawn = [str(name) for name in ds.data_vars if set(ds[name].dims) <= set(DIMS) and ds[name].dtype.kind in "fiu"]
    methods = [str(method) for method in ds["method"].values] if "method" in ds.coords else []
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # zlib lets go of the interpreter lock
        arrays = dict(zip(drawn, pool.map(_array, (ds[name] for name in drawn)), strict=True))
    return {
        "finding": finding(ds).replace(" %", "\N{NO-BREAK SPACE}%"),
        "attrs": {str(name): _plain(str(value)) for name, value in ds.attrs.items()},
        "causal": int(ds.attrs.get("causal", 0)) == 1,
        "tokens": _tokens(ds),
        "layers": ds["layer"].values.tolist() if "layer" in ds.coords else [],
        "heads": int(ds.sizes.get("head", 0)),
        "methods": sorted(methods, key=_rank(MIXING_ORDER)),
        "method_places": {method: place for place, method in enumerate(methods)},
        "maps": sorted((n for n in drawn if set(ds[n].dims) == set(PER_LAYER)), key=_rank(SOURCE_ORDER)),
        "head_maps": [name for name in drawn if set(ds[name].dims) == set(PER_HEAD)],
        "panels": panels(ds),
        "labels": {name: label(name)._asdict() for name in (*drawn, *methods)},
        "palette": _palette((*drawn, *methods)),
        "variables": arrays,
    }


def panels(ds: xarray.Dataset) -> list[str]:
    """The panels this Dataset has the variables for, in reading order."""
    there = {str(name) for name in ds.data_vars} | {tuple(d for d in DIMS if d in ds[n].dims) for n in ds.data_vars}
    return [panel for panel, needs in PANELS.items() if there & set(needs)]


def _tokens(ds: xarray.Dataset) -> list[dict[str, Any]]:
    return [
        {"text": _plain(str(token)), "shown": legible(str(token)), "word": _plain(str(word)), "special": bool(special)}
        for token, word, special in zip(
            ds["target_token"].values, ds["target_word"].values, ds["target_is_special"].values, strict=True
        )
    ]


def _rank(order: tuple[str, ...]) -> Callable[[str], int]:
    return lambda name: order.index(name) if name in order else len(order)


def _palette(names: tuple[str, ...]) -> dict[str, Any]:
    return {
        theme: {
            **FURNITURE[theme],
            "sequential": SEQUENTIAL[theme],
            "diverging": DIVERGING[theme],
            "measures": {name: measure_color(name, theme) for name in names},
        }
        for theme in THEMES
    }


# Arrays


def _array(variable: xarray.DataArray) -> dict[str, Any]:
    """One variable: its bytes grouped by significance (all first bytes, all second ones …), deflated, in base64."""
    dims = [dim for dim in DIMS if dim in variable.dims]
    values = np.ascontiguousarray(variable.transpose(*dims).values, dtype=np.float32)
    described = {"dims": dims, "shape": values.shape, "signed": bool((values < 0).any())}
    if values.size <= EXACT_UP_TO:
        return {**described, "kind": "float32", "data": _packed(values)}
    steps, scale = _steps(values)
    return {**described, "kind": "int16", "data": _packed(steps), "scale": _packed(scale)}


def _steps(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values as whole steps, and the size of a step for each map (the two last axes are one map)."""
    flat = values.reshape(-1, values.shape[-2] * values.shape[-1])
    finite = np.isfinite(flat)
    largest = np.abs(flat).max(axis=1, where=finite, initial=0.0)
    scale = (np.where(largest > 0, largest, 1.0) / STEPS).astype(np.float32)
    steps = np.rint(np.where(finite, flat, 0.0) / scale[:, None])
    return np.where(finite, steps, MISSING).astype("<i2"), scale


def _packed(values: np.ndarray) -> str:
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    planes = np.ascontiguousarray(little.reshape(-1, 1).view(np.uint8).T)
    deflate = zlib.compressobj(level=1, strategy=zlib.Z_RLE)  # measured numbers repeat only in runs of zeros
    return base64.b64encode(deflate.compress(planes.data) + deflate.flush()).decode("ascii")


# The file


def _plain(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _inert(data: dict[str, Any]) -> str:
    """JSON that no text inside can end: `<` never appears in it."""
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


@cache
def _style() -> str:
    def variables(theme: Theme) -> str:
        return "".join(f"--{name}:{color};" for name, color in FURNITURE[theme].items())

    themes = f":root{{{variables('light')}}}\n:root[data-theme=dark]{{{variables('dark')}}}\n"
    return themes + (HERE / "page.css").read_text(encoding="utf-8")


@cache
def _script() -> str:
    """The modules of this folder as one script.

    Each file stays an ordinary ES module that a server can hand out as it is. Here, every module becomes a function
    called once whose result holds its exports, in the order of the imports; this needs the two forms of import
    `import { a, b as c } from "./x.js"` and `import * as x from "./x.js"`, and exports that are declarations.
    """
    done: dict[str, str] = {}
    _bundle("main", done)
    return '"use strict";\n' + "\n".join(done.values()) + "\nmodule_main.boot();\n"


_IMPORT = re.compile(r'^import (?:\* as (?P<whole>\w+)|(?P<names>\{[^}]*\})) from "\./(?P<module>\w+)\.js";$', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class) (?P<name>\w+))", re.M)


def _bundle(module: str, done: dict[str, str]) -> None:
    source = (HERE / f"{module}.js").read_text(encoding="utf-8")
    for found in _IMPORT.finditer(source):
        if found["module"] not in done:
            _bundle(found["module"], done)
    exports = ", ".join(found["name"] for found in _EXPORT.finditer(source))
    body = _EXPORT.sub("", _IMPORT.sub(_taken, source))
    done[module] = f"const module_{module} = (() => {{\n{body}return {{ {exports} }};\n}})();"


def _taken(found: re.Match[str]) -> str:
    names = found["whole"] or found["names"].replace(" as ", ": ")
    return f"const {names} = module_{found['module']};"
