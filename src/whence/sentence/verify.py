"""What was checked of a loaded model, as a table."""

import pandas

from whence.models.load import Model, loaded
from whence.models.verify import verify as checked


def verify(model: Model) -> pandas.DataFrame:
    """The checks of a loaded model, run again.

    Args:
        model: a loaded model

    Returns:
        A DataFrame with a row for each check: what was compared, the error, the limit, whether it passed, and what it
        makes possible.

    Examples:
        >>> bool(whence.verify(whence.load()).passed.all())
        True
    """
    rows = [
        {"check": check.name, "error": check.error, "limit": check.limit, "passed": check.passed, "gives": check.gives}
        for check in checked(loaded(model).anatomy)
    ]
    return pandas.DataFrame(rows)
