"""How the modules and the style of this folder become one script and one sheet."""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from whence.plot.palette import FURNITURE, Theme

HERE = Path(__file__).parent


@cache
def style() -> str:
    """The sheet, with the colours of light and dark as variables."""

    def variables(theme: Theme) -> str:
        return "".join(f"--{name}:{color};" for name, color in FURNITURE[theme].items())

    themes = f":root{{{variables('light')}}}\n:root[data-theme=dark]{{{variables('dark')}}}\n"
    return themes + (HERE / "page.css").read_text(encoding="utf-8")


@cache
def script(entry: str = "main") -> str:
    """The modules that one of them needs, itself last, as one script that binds each to `module_<its name>`.

    Each file stays an ordinary ES module that a server can hand out as it is. Here, every module becomes a function
    called once whose result holds its exports, in the order of the imports; this needs the two forms of import
    `import { a, b as c } from "./x.js"` and `import * as x from "./x.js"`, and exports that are declarations.
    """
    done: dict[str, str] = {}
    _bundle(entry, done)
    return '"use strict";\n' + "\n".join(done.values()) + "\n"


def digest(text: str) -> str:
    """The name by which a content security policy allows exactly this style or script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


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
