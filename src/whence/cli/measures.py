"""whence measures: what can be measured."""

from whence.cli import shared


def measures() -> None:
    """List what can be measured, by the name to ask for, with axes, units and papers."""
    from whence.sentence.list_measures import list_measures

    table = list_measures()
    columns = ["measure", "name", "dims", "unit", "needs", "papers"]
    shared.table(tuple(columns), [tuple(row) for row in table[columns].to_numpy().tolist()])
