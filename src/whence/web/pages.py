"""The live page: the modules of whence.page, handed out as they are."""

from functools import cache

from whence.page.bundle import MODULES
from whence.page.templates import rendered


@cache
def modules() -> dict[str, str]:
    """Every module by its path."""
    files = sorted(MODULES.rglob("*.js"))
    return {file.relative_to(MODULES).as_posix(): file.read_text(encoding="utf-8") for file in files}


@cache
def page() -> str:
    """The page; asking for all modules at once saves the round trips of finding them one by one."""
    return rendered("live.html", modules=modules())
