"""What can be measured, as a table."""

import pandas

from whence.measures.registry import MEASURES


def list_measures() -> pandas.DataFrame:
    """Every variable of every measure: its axes, unit, what the model must give, and the papers."""
    rows = [
        {
            "measure": name,
            "variable": variable,
            "dims": ", ".join(entry.dims),
            "unit": entry.unit,
            "about": entry.about,
            "needs": ", ".join(sorted(entry.needs)),
            "papers": ", ".join(row.papers),
        }
        for name, row in MEASURES.items()
        for variable, entry in row.variables.items()
    ]
    return pandas.DataFrame(rows)
