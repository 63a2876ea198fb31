"""How the modules and the style of a page become one script and one style sheet."""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from whence.plot.palette import FURNITURE, Theme

HERE = Path(__file__).resolve().parent
MODULES = HERE / "js"


# style sheet -> where its dark colours hold: as the page's script says, or as the system does, but never on paper
DARK = {
    "page.css": ":root[data-theme=dark]{%s}",
    "study.css": "@media screen and (prefers-color-scheme: dark){:root{%s}}",
}


@cache
def style(sheet: str = "page.css") -> str:
    """A style sheet, with the colours of light and dark as variables."""
    themes = f":root{{{variables('light')}}}\n{DARK[sheet] % variables('dark')}\n"
    return themes + (HERE / sheet).read_text(encoding="utf-8")


def variables(theme: Theme) -> str:
    return "".join(f"--{name}:{color};" for name, color in FURNITURE[theme].items())


@cache
def script(entry: str = "page.js") -> str:
    """The modules that one of them needs, itself last, as one script that binds each to `module_<its name>`.

    Each file stays an ordinary ES module that a server can serve as it is. Here, every module becomes a function
    called once whose result holds its exports, in the order of the imports; this needs the two forms of import
    `import { a, b as c } from "./x.js"` and `import * as x from "./x.js"`, exports that are declarations, and no two
    files of one name. Comments and indentation are dropped, so no string may span two lines.
    """
    bundled: dict[Path, str] = {}
    _bundle(MODULES / entry, bundled)
    return '"use strict";\n' + "\n".join(bundled.values()) + "\n"


def digest(text: str) -> str:
    """The name by which a content security policy allows exactly this style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


_IMPORT = re.compile(r'^import (?:\* as (?P<whole>\w+)|(?P<names>\{[^}]*\})) from "(?P<path>[./\w]+)";$', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|const|class) (?P<name>\w+))", re.M)
_COMMENT = re.compile(r"^[ ]*(?:/\*\*.*?\*/|//[^\n]*)\n|^[ ]+|^\n", re.M | re.S)
_BEHIND = re.compile(r"[ ]+// [^\n\"'`]*$|/\*\* @type [^\n]*?\*/ ?", re.M)  # behind code, and before what is cast


def _bundle(file: Path, bundled: dict[Path, str]) -> None:
    source = _BEHIND.sub("", _COMMENT.sub("", file.read_text(encoding="utf-8")))
    for match in _IMPORT.finditer(source):
        imported = (file.parent / match["path"]).resolve()
        if imported not in bundled:
            _bundle(imported, bundled)
    exports = ", ".join(match["name"] for match in _EXPORT.finditer(source))
    body = _EXPORT.sub("", _IMPORT.sub(_binding, source))
    bundled[file] = f"const module_{file.stem} = (() => {{\n{body}return {{ {exports} }};\n}})();"


def _binding(match: re.Match[str]) -> str:
    names = match["whole"] or match["names"].replace(" as ", ": ")
    return f"const {names} = module_{Path(match['path']).stem};"
