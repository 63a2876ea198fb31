"""The tables of many models as one: panels or lines by model where they are few, means and their spread where not."""

from collections.abc import Mapping
from typing import Any

import pandas

from whence.studies.frame.study import Figure

FEW = 6  # models that have a panel or a line of their own
MODEL = "model"
_SPREAD = ("low", "high")
_OWN = ("lower", "middle", "upper", "published")  # averaged like the amounts themselves
Named = Mapping[str, pandas.DataFrame]


def together(figure: Figure, tables: Named) -> tuple[pandas.DataFrame, dict[str, Any]]:
    """What is drawn of all models, and how.

    Up to six models are lines of their own (two, where lines have colours already: solid and dashed) or panels. Of more
    models, or where there are panels already, means are drawn, with bands from the lowest to the highest model.
    """
    encoding = dict(figure.encoding)
    rows = pandas.concat([table.assign(**{MODEL: name}) for name, table in tables.items()], ignore_index=True)
    layers = {tuple(sorted(table["layer"].unique())) for table in tables.values() if "layer" in table}
    free = _free(encoding, len(tables))
    if free is not None and (len(tables) <= FEW or len(layers) > 1):
        order = {"order": tuple(tables)} if free == "color" else {}
        plain = rows.drop(columns=[name for name in _SPREAD if free == "color" and name in rows])
        return plain, encoding | order | {free: MODEL}
    if encoding["kind"] == "points":
        return rows[rows[MODEL].isin(list(tables)[:FEW])], encoding
    return averaged(figure, rows), encoding


def _free(encoding: Mapping[str, Any], models: int) -> str | None:
    """The channel that can tell models apart: the colour or the dash of lines, or panels."""
    if encoding["kind"] == "lines" and encoding.get("color") is None:
        return "color"
    if encoding["kind"] == "lines" and models == 2:
        return "dash"
    return "by" if encoding.get("by") is None else None


def averaged(figure: Figure, rows: pandas.DataFrame) -> pandas.DataFrame:
    """The means over models of every mark; of lines and bars the lowest and the highest model too."""
    encoding = figure.encoding
    along, amount = encoding["x"], encoding["value"] if encoding["kind"] == "grid" else encoding["y"]
    if not pandas.api.types.is_numeric_dtype(rows[amount]):  # bars that lie
        along, amount = amount, along
    keys = [along, encoding.get("color"), encoding.get("by"), encoding.get("dash")]
    keys += [encoding["y"] if encoding["kind"] == "grid" else None, f"{encoding['x']}_end"]
    by = list(dict.fromkeys(key for key in keys if key is not None and key in rows))
    grouped = rows.groupby(by, sort=False, dropna=False)
    columns = list(dict.fromkeys(name for name in (amount, *_OWN) if name in rows))
    means = grouped[columns].mean()
    if encoding["kind"] in ("lines", "bars"):
        means = means.assign(low=grouped[amount].min(), high=grouped[amount].max())
    elif set(_SPREAD) <= set(rows):
        means = means.join(grouped[list(_SPREAD)].mean())
    others = [name for name in rows if name not in (*by, *means, *_SPREAD, MODEL)]
    means = means.join(grouped[others].first())
    return means.reset_index().astype({name: rows[name].dtype for name in by})
