"""What can be measured, as a table."""

import pandas

from whence.measures.registry import measures


def list_measures() -> pandas.DataFrame:
    """Every variable of every measure: its axes, unit, what the model must give, and the papers.

    >>> whence.list_measures().query("variable == 'mixing'").dims.item()
    'analysis, layer, target'
    """
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
