"""The report of any run: its measures by layer, kind of token, part of speech and pair of words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas

from whence.corpus.open_run import Run
from whence.measures.registry import variables
from whence.studies.frame.report import shown
from whence.studies.frame.study import Answered, Figure, Section, Shown, Study
from whence.studies.frame.write import write

SHOWN = 8  # variables in one picture
GROUPS = {"class": "kind of token", "upos": "part of speech", "ner": "named entity", "deprel": "dependency"}
# names of variables that are shares, so that several fit on one axis
_SHARES = ("mixing_", "_own", "_own_largest")


def overview(run: Run, out: Path) -> Path:
    """Writes the report of a run into a folder and returns the path of its page."""
    sections = [Section("By layer", "How do the measures change with depth?", _by_layer(run))]
    sections += [
        Section(f"By {name}", f"How does it depend on the {name}?", _by_group(run, by))
        for by, name in GROUPS.items()
        if (run.moments["by"] == by).any()
    ]
    if any(name.startswith("pairs/") for record in run.records for name in record["files"]):
        sections.append(Section("Pairs of words", "Between which words does most flow?", (PAIRS,)))
    about = _about(run)
    measured = f"What was measured: {', '.join(run.manifest['plan']['measures'])}"
    study = Study("report", f"{about['data']}, measured", measured, "", "", tuple(sections))
    answers = [Answered(section, list(_drawn(section, run))) for section in sections]
    return write(study, about, out, [answer for answer in answers if answer.items])


def _drawn(section: Section, run: Run) -> Iterator[Shown]:
    """The figures of a section that have something to show."""
    for figure in section.items:
        if isinstance(figure, Figure) and not (table := figure.query(run)).empty:
            yield shown(figure, table)


def _about(run: Run) -> dict[str, object]:
    model, corpus = run.manifest["model"], run.manifest["corpus"]
    counts = {name: corpus[name] for name in ("sentences", "tokens") if name in corpus}
    return {
        "model": model["id"],
        "revision": model["revision"] or "",
        "data": corpus["name"],
        "finished": run.finished,
        **counts,
        "seed": run.attrs["seed"],
        "weights_sha256": model["weights_sha256"],
        **{f"{name}_version": version for name, version in run.manifest["versions"].items()},
    }


def _token_rows(moments: pandas.DataFrame, by: str) -> pandas.DataFrame:
    """Means of shares that tokens have, not heads or classes of sources."""
    rows = moments[(moments["by"] == by) & moments["head"].isna() & moments["source"].isna()]
    named = rows["variable"].str.startswith(_SHARES[0]) | rows["variable"].str.endswith(_SHARES[1:])
    return rows[named & ~rows["variable"].str.endswith("_entropy")]


def _by_layer(run: Run) -> tuple[Figure, ...]:
    rows = _token_rows(run.moments, "all")
    names = list(dict.fromkeys(rows["variable"]))[:SHOWN]
    columns = ["layer", "variable", "mean", "std", "minimum", "maximum", "count"]
    table = rows[rows["variable"].isin(names)][columns]
    table.attrs["sample"] = f"means over {int(table['count'].max() if names else 0):,} tokens"

    def sentence(table: pandas.DataFrame) -> str:
        main = table[table["variable"] == table["variable"].iloc[-1]]["mean"]
        return f"{names[-1]} goes from {main.iloc[0]:.0%} to {main.iloc[-1]:.0%}"

    encoding: dict[str, Any] = {"kind": "lines", "x": "layer", "y": "mean", "color": "variable"}
    encoding |= {"limits": (0.0, 1.0), "y_title": "share"}
    return (Figure("by_layer", "", lambda run: table, encoding, sentence, only=_short),)


def _short(table: pandas.DataFrame) -> pandas.DataFrame:
    return table.assign(variable=table["variable"].str.removeprefix("mixing_"))


def _by_group(run: Run, by: str) -> tuple[Figure, ...]:
    rows = _token_rows(run.moments, by)
    names = list(dict.fromkeys(rows["variable"]))[-2:]
    return tuple(_group(name, by, rows[rows["variable"] == name]) for name in names)


def _group(name: str, by: str, rows: pandas.DataFrame) -> Figure:
    table = rows[["layer", "group", "mean", "std", "count"]]
    table.attrs["sample"] = f"means over {int(table['count'].sum() / max(1, table['layer'].nunique())):,} tokens"

    def sentence(table: pandas.DataFrame) -> str:
        top = table.loc[table["mean"].idxmax()]
        return f"{name} is largest for {top['group']} in layer {top['layer']}: {top['mean']:.0%}"

    encoding = {"kind": "grid", "x": "group", "y": "layer", "value": "mean", "x_title": ""}
    return Figure(f"{name}_by_{by}", "", lambda run: table, encoding, sentence)


def _pairs(run: Run) -> pandas.DataFrame:
    names = [name for name in run.arrow("pairs").schema.names if name in variables()]
    table = run.arrow("pairs").to_table(columns=["kind", "coreferent", "layer", *names]).to_pandas()
    which = table["coreferent"].map({True: "coreferent", False: "not coreferent"}).fillna(table["kind"])
    means = table.assign(pair=which).groupby(["pair", "layer"], as_index=False)[names].mean()
    long = means.melt(["pair", "layer"], var_name="measure", value_name="mean")
    long.attrs["sample"] = f"means over {len(table) // max(1, table['layer'].nunique()):,} pairs"
    return long


PAIRS = Figure(
    "pairs",
    "",
    _pairs,
    {"kind": "lines", "x": "layer", "y": "mean", "color": "pair", "by": "measure", "share": False, "own_scales": True},
    lambda table: "Flow between words, by what they have to do with each other",
)
