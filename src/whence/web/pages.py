"""The live page: the modules of whence.page, handed out as they are."""

import html
from functools import cache
from string import Template

from whence.page.bundle import HERE, MODULES


@cache
def modules() -> dict[str, str]:
    """Every module by its path."""
    files = sorted(MODULES.rglob("*.js"))
    return {file.relative_to(MODULES).as_posix(): file.read_text(encoding="utf-8") for file in files}


@cache
def page() -> str:
    """The page; asking for all modules at once saves the round trips of finding them one by one."""
    links = "\n".join(f'<link rel="modulepreload" href="/modules/{html.escape(name)}">' for name in modules())
    return Template((HERE / "live.html").read_text(encoding="utf-8")).substitute(modules=links)
