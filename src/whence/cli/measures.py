"""whence measures: what can be measured."""

from whence.cli import shared


def measures() -> None:
    """List everything that can be measured, with its name, axes, unit and papers."""
    from whence.sentence.list_measures import list_measures

    table = list_measures()
    columns = ["measure", "name", "dims", "unit", "needs", "papers"]
    shared.table(tuple(columns), [tuple(row) for row in table[columns].to_numpy().tolist()])
