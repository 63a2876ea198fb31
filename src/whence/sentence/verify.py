"""What was checked of a loaded model, as a table."""

import pandas

from whence.models.load import Model, loaded
from whence.models.verify import verify as checked


def verify(model: Model) -> pandas.DataFrame:
    """The checks of a loaded model, run again: what was compared, the error, the limit, what it makes possible.

    >>> bool(whence.verify(whence.load()).passed.all())
    True
    """
    rows = [
        {"check": check.name, "error": check.error, "limit": check.limit, "passed": check.passed, "gives": check.gives}
        for check in checked(loaded(model).anatomy)
    ]
    return pandas.DataFrame(rows)
