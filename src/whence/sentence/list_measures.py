"""What can be measured, as a table."""

import pandas

from whence.measures.registry import measures


def list_measures() -> pandas.DataFrame:
    """Everything that can be measured, as a table.

    Returns:
        A DataFrame with a row for every variable of every measure: the name to ask for it by, its axes, its unit, what
        the model must give, and the papers.

    Examples:
        >>> whence.list_measures().query("variable == 'mixing'")[["measure", "name", "dims"]].values.tolist()
        [['mixing', 'mixing', 'analysis, layer, target'], ['block', 'mixing_block_n', 'analysis, layer, target']]
    """
    rows = [
        {
            "measure": name,
            "name": variable,
            "variable": variable if declared.analysis is None else declared.analysis[0],
            "analysis": "" if declared.analysis is None else declared.analysis[1],
            "dims": ", ".join(declared.dims if declared.analysis is None else ("analysis", *declared.dims)),
            "unit": declared.unit,
            "about": declared.about,
            "needs": ", ".join(sorted(declared.needs)),
            "papers": ", ".join(row.papers),
        }
        for name, row in measures().items()
        for variable, declared in row.variables.items()
    ]
    return pandas.DataFrame(rows)
