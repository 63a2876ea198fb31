"""What other packages add: measures, readers, families and studies, by their entry points."""

import logging
from functools import cache
from importlib.metadata import entry_points
from typing import Any

GROUPS = ("whence.measures", "whence.readers", "whence.families", "whence.studies")
log = logging.getLogger("whence")


@cache
def plugins(group: str, kind: type) -> dict[str, Any]:
    """Name -> object of every entry point of this group; one that cannot be used is logged and left out.

    A fault in another package must neither break the rest of the library nor stay hidden.
    """
    objects: dict[str, Any] = {}
    for entry in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        try:
            loaded = entry.load()
        except Exception as error:
            log.warning("%s %r of another package is left out: %s cannot be loaded (%s)", *_about(group, entry), error)
            continue
        if not isinstance(loaded, kind):
            log.warning("%s %r of another package is left out: %s is no %s", *_about(group, entry), kind.__name__)
            continue
        objects[entry.name] = loaded
    return objects


def _about(group: str, entry: Any) -> tuple[str, str, str]:
    return f"An entry of {group}", entry.name, entry.value
