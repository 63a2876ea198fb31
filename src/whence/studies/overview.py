"""The report of any run: its measures by layer, kind of token, part of speech and pair of words."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pandas

from whence.corpus.open_run import Run
from whence.measures.registry import variables
from whence.plot.drawing import Drawing
from whence.studies.frame.study import Answered, Item, Section, Shown, Study
from whence.studies.frame.write import write

SHOWN = 8  # variables in one picture
GROUPS = {"class": "kind of token", "upos": "part of speech", "ner": "named entity", "deprel": "dependency"}
# names of variables that are shares, so that several fit on one axis
_SHARES = ("mixing_", "_own", "_own_largest")


def overview(run: Run, out: Path) -> Path:
    """Writes the report of a run into a folder and returns the path of its page."""
    sections = [Section("By layer", "How do the measures change with depth?", _by_layer)]
    sections += [
        Section(f"By {name}", f"How does it depend on the {name}?", partial(_by_group, by=by))
        for by, name in GROUPS.items()
        if (run.moments["by"] == by).any()
    ]
    if any(name.startswith("pairs/") for record in run.records for name in record["files"]):
        sections.append(Section("Pairs of words", "Between which words does most flow?", _pairs))
    about = _about(run)
    study = Study(
        "report",
        f"{about['data']}, measured",
        f"What was measured: {', '.join(run.manifest['plan']['measures'])}",
        "",
        "",
        tuple(sections),
    )
    answers = [Answered(section, list(section.make(run))) for section in sections]
    return write(study, about, out, [answer for answer in answers if answer.items])


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


def _by_layer(run: Run) -> Iterator[Item]:
    rows = _token_rows(run.moments, "all")
    names = list(dict.fromkeys(rows["variable"]))[:SHOWN]
    if not names:
        return
    table = rows[rows["variable"].isin(names)][["layer", "variable", "mean", "std", "minimum", "maximum", "count"]]
    main = table[table["variable"] == names[-1]]
    yield Shown(
        "by_layer",
        "",
        Drawing(
            "lines",
            table.assign(variable=table["variable"].str.removeprefix("mixing_")),
            "layer",
            "mean",
            f"{names[-1]} goes from {main['mean'].iloc[0]:.0%} to {main['mean'].iloc[-1]:.0%}",
            f"means over {int(main['count'].iloc[0]):,} tokens",
            color="variable",
            limits=(0.0, 1.0),
            y_title="share",
        ),
    )


def _by_group(run: Run, by: str) -> Iterator[Item]:
    rows = _token_rows(run.moments, by)
    names = list(dict.fromkeys(rows["variable"]))
    for name in names[-2:]:
        table = rows[rows["variable"] == name][["layer", "group", "mean", "std", "count"]]
        if table.empty:
            continue
        top = table.loc[table["mean"].idxmax()]
        yield Shown(
            f"{name}_by_{by}",
            "",
            Drawing(
                "grid",
                table,
                "group",
                "layer",
                f"{name} is largest for {top['group']} in layer {top['layer']}: {top['mean']:.0%}",
                f"means over {int(table['count'].sum() / table['layer'].nunique()):,} tokens",
                value="mean",
                x_title="",
            ),
        )


def _pairs(run: Run) -> Iterator[Item]:
    names = [name for name in run.arrow("pairs").schema.names if name in variables()]
    table = run.arrow("pairs").to_table(columns=["kind", "coreferent", "layer", *names]).to_pandas()
    which = table["coreferent"].map({True: "coreferent", False: "not coreferent"}).fillna(table["kind"])
    means = table.assign(pair=which).groupby(["pair", "layer"], as_index=False)[names].mean()
    long = means.melt(["pair", "layer"], var_name="measure", value_name="mean")
    if long.empty:
        return
    yield Shown(
        "pairs",
        "",
        Drawing(
            "lines",
            long,
            "layer",
            "mean",
            "Flow between words, by what they have to do with each other",
            f"means over {len(table) // table['layer'].nunique():,} pairs",
            color="pair",
            by="measure",
            share=False,
            own_scales=True,
        ),
    )
