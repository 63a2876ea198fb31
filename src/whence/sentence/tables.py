"""What can be measured, and what was checked, as tables."""

import pandas

from whence.measures.registry import measures
from whence.models.load import Model, loaded
from whence.models.verify import verify as checked


def list_measures() -> pandas.DataFrame:
    """Every variable of every measure: its axes, unit, what the model must give, and the papers."""
    rows = [
        {
            "measure": name,
            "variable": variable if entry.analysis is None else entry.analysis[0],
            "analysis": "" if entry.analysis is None else entry.analysis[1],
            "dims": ", ".join(entry.dims if entry.analysis is None else ("analysis", *entry.dims)),
            "unit": entry.unit,
            "about": entry.about,
            "needs": ", ".join(sorted(entry.needs)),
            "papers": ", ".join(row.papers),
        }
        for name, row in measures().items()
        for variable, entry in row.variables.items()
    ]
    return pandas.DataFrame(rows)


def verify(model: Model) -> pandas.DataFrame:
    """The checks of a loaded model, run again: what was compared, the error, the limit, what it makes possible."""
    rows = [
        {"check": check.name, "error": check.error, "limit": check.limit, "passed": check.passed, "gives": check.gives}
        for check in checked(loaded(model).anatomy)
    ]
    return pandas.DataFrame(rows)
