"""The live page: the modules of whence.report and of live/, handed out as they are."""

import html
from functools import cache
from pathlib import Path
from string import Template

from whence.report.bundle import HERE as REPORT

LIVE = Path(__file__).parent / "live"


@cache
def modules() -> dict[str, str]:
    """Every module by its file name."""
    files = sorted([*REPORT.glob("*.js"), *LIVE.glob("*.js")])
    return {file.name: file.read_text(encoding="utf-8") for file in files}


@cache
def page() -> str:
    """The page; asking for all modules at once saves the round trips of finding them one by one."""
    links = "\n".join(f'<link rel="modulepreload" href="/modules/{html.escape(name)}">' for name in modules())
    return Template((LIVE / "live.html").read_text(encoding="utf-8")).substitute(modules=links)
