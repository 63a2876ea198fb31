"""What was checked of a loaded model, as a table."""

import pandas

from whence.models.load import Model, loaded
from whence.models.verify import Check
from whence.models.verify import verify as checked


def verify(model: Model) -> pandas.DataFrame:
    """The checks of a loaded model, run again.

    Args:
        model: a loaded model

    Returns:
        A DataFrame with a row for each check: what was compared, the error, the limit, whether it passed, and what it
        makes possible. Of an encoder-decoder the checks of both stacks, each named before the check.

    Examples:
        >>> bool(whence.verify(whence.load()).passed.all())
        True
    """
    anatomy = loaded(model, two_stacks=True).anatomy
    stacks = [("", anatomy)] if anatomy.encoder is None else [("encoder: ", anatomy.encoder), ("decoder: ", anatomy)]
    return pandas.DataFrame([_row(check, stack) for stack, each in stacks for check in checked(each)])


def _row(check: Check, stack: str) -> dict[str, str | float | bool]:
    return {
        "check": stack + check.name,
        "error": check.error,
        "limit": check.limit,
        "passed": check.passed,
        "gives": check.gives,
    }
