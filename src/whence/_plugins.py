"""What other packages add: measures, readers, families and studies, by their entry points."""

import logging
from functools import cache
from importlib.metadata import entry_points
from typing import Any

GROUPS = ("whence.measures", "whence.readers", "whence.families", "whence.studies")
log = logging.getLogger("whence")


@cache
def plugins(group: str, kind: type) -> dict[str, Any]:
    """Name -> object of every entry point of this group; one that cannot be used is said and left out.

    A package's fault must not take the rest of the library away, nor be hidden.
    """
    found: dict[str, Any] = {}
    for entry in sorted(entry_points(group=group), key=lambda each: (each.name, each.value)):
        try:
            loaded = entry.load()
        except Exception as error:
            log.warning("%s %r of another package is left out: %s cannot be loaded (%s)", *_about(group, entry), error)
            continue
        if not isinstance(loaded, kind):
            log.warning("%s %r of another package is left out: %s is no %s", *_about(group, entry), kind.__name__)
            continue
        found[entry.name] = loaded
    return found


def _about(group: str, entry: Any) -> tuple[str, str, str]:
    return f"An entry of {group}", entry.name, entry.value
