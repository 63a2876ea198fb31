"""The report of any run: its measures by layer, kind of token, part of speech and pair of words."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

from whence.corpus.open_run import Run
from whence.measures.registry import variables
from whence.plot import MIXING_ORDER, WHOLE_MODEL, style
from whence.stats.mean import means
from whence.studies.frame.report import shown
from whence.studies.frame.study import Answered, Figure, Section, Shown, Study
from whence.studies.frame.write import write

SHOWN = 8  # variables in one picture
GROUPS = {"class": "kind of token", "upos": "part of speech", "ner": "named entity", "deprel": "dependency"}
GRIDS = 2  # pictures by group: of the variables that matter most
RESAMPLES = 500  # of documents, for a band


@dataclass(frozen=True)
class Kind:
    """Columns of a run that say the same of a token, by one measure or another."""

    key: str
    axis: str
    says: str
    "How a finding begins; a share follows."
    prefix: str = ""
    suffix: str = ""


# what is drawn together, on one axis; a longer suffix before a shorter one
KINDS = (
    Kind("others", "from other tokens", "Share of a token’s new vector that comes from other tokens", prefix="mixing_"),
    Kind("largest", "largest source is itself", "Tokens whose largest source is themselves", suffix="_own_largest"),
    Kind("own", "own share", "Share of a token that comes from itself", suffix="_own"),
)


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


def shares_of(moments: pandas.DataFrame, by: str) -> pandas.DataFrame:
    """Means of shares that tokens have, with the kind of each and the measure it is by; what matters most first.

    Heads and classes of sources are left out, and so are groups without a name: tokens without an annotation.
    """
    rows = moments[(moments["by"] == by) & moments["head"].isna() & moments["source"].isna()].dropna(subset=["mean"])
    known = {name: kind for name in dict.fromkeys(rows["variable"]) if (kind := kind_of(name))}
    order = {name: place for place, name in enumerate(sorted(known, key=lambda name: _rank(*known[name])))}
    rows = rows[rows["variable"].isin(known)]
    if by != "all":
        rows = rows[rows["group"].fillna("").str.strip() != ""]
    kinds = [known[name] for name in rows["variable"]]
    rows = rows.assign(kind=[kind.key for kind, _ in kinds], measure=[measure for _, measure in kinds])
    return rows.sort_values(["variable", "layer"], key=lambda column: column.map(order).fillna(column))


def kind_of(variable: str) -> tuple[Kind, str] | None:
    """What a column of a run says, and by which measure; None where it is no share of a token."""
    for kind in KINDS:
        if kind.prefix and variable.startswith(kind.prefix):
            return kind, variable.removeprefix(kind.prefix)
        if kind.suffix and variable.endswith(kind.suffix):
            return kind, variable.removesuffix(kind.suffix)
    return None


def _rank(kind: Kind, measure: str) -> tuple[bool, bool, int, int]:
    """What counts from the input comes first, then the fullest analysis; counted tokens come last."""
    order = ("contribution", WHOLE_MODEL, *MIXING_ORDER)
    place = order.index(measure) if measure in order else len(order)
    return kind.key == "largest", not style(measure).wording.since_input, KINDS.index(kind), place


def _by_layer(run: Run) -> tuple[Figure, ...]:
    rows = shares_of(run.moments, "all")
    kinds = [kind for key in dict.fromkeys(rows["kind"]) for kind in KINDS if kind.key == key]
    return tuple(_lines(run, kind, rows[rows["kind"] == kind.key]) for kind in kinds)


def _lines(run: Run, kind: Kind, rows: pandas.DataFrame) -> Figure:
    names = list(dict.fromkeys(rows["variable"]))[:SHOWN]
    titles = {name: style(measure).title for name, measure in zip(rows["variable"], rows["measure"], strict=True)}
    columns = ["layer", "variable", "measure", "mean", "std", "minimum", "maximum", "count"]
    table = rows[rows["variable"].isin(names)][columns]
    table = table.merge(_limits(run, names), on=["variable", "layer"], how="left")
    table = table.assign(by=table["variable"].map(titles))
    left_out = len(set(rows["variable"])) - len(names)
    tokens = f"means over {int(table['count'].max()):,} tokens"
    band = "bands: 95 % of resampled documents" if table["low"].notna().any() else ""
    table.attrs["sample"] = "; ".join(filter(None, [tokens, band, f"{left_out} more not drawn" if left_out else ""]))
    encoding: dict[str, Any] = {"kind": "lines", "x": "layer", "y": "mean", "color": "by", "limits": (0.0, 1.0)}
    encoding |= {"y_title": kind.axis, "measures": {titles[name]: m for name, m in _measures(table).items()}}
    return Figure(f"by_layer_{kind.key}", "", lambda run: table, encoding, lambda table: by_layer(kind, table))


def _measures(table: pandas.DataFrame) -> dict[str, str]:
    return dict(zip(table["variable"], table["measure"], strict=True))


def _limits(run: Run, names: list[str]) -> pandas.DataFrame:
    """Intervals of the means by layer, from documents drawn again, or sentences where there is one document alone."""
    empty = pandas.DataFrame({"variable": [], "layer": [], "low": [], "high": []})
    empty = empty.astype({"variable": object, "layer": int})
    columns = {"document", "sentence", "layer", *names}
    if not any(name.startswith("tokens/") for record in run.records for name in record["files"]):
        return empty
    there = columns & set(run.arrow("tokens").schema.names)
    table = run.arrow("tokens").to_table(columns=sorted(there)).to_pandas()
    cluster = "document" if table["document"].nunique() > 1 else "sentence"
    known = [name for name in names if name in there and table[name].notna().any()]
    if table[cluster].nunique() < 2 or not known:
        return empty
    limits = means(table, known, "layer", cluster=cluster, resamples=RESAMPLES)
    return limits.rename(columns={"value": "variable"})[["variable", "layer", "low", "high"]]


def by_layer(kind: Kind, table: pandas.DataFrame) -> str:
    """The finding of the first measure: from the first layer that has it to the last."""
    main = table[table["variable"] == table["variable"].iloc[0]].sort_values("layer")
    first, last = main.iloc[0], main.iloc[-1]
    title = style(first["measure"]).title
    if len(main) == 1:
        return f"{kind.says}: {first['mean']:.0%} in layer {first['layer']}, by {title}"
    ends = f"{first['mean']:.0%} in layer {first['layer']}, {last['mean']:.0%} in layer {last['layer']}"
    return f"{kind.says}: {ends}, by {title}"


def _by_group(run: Run, by: str) -> tuple[Figure, ...]:
    rows = shares_of(run.moments, by)
    names = list(dict.fromkeys(rows["variable"]))[:GRIDS]
    return tuple(_group(name, by, rows[rows["variable"] == name]) for name in names)


def _group(name: str, by: str, rows: pandas.DataFrame) -> Figure:
    kind, measure = kind_of(name)  # type: ignore[misc]
    table = rows[["layer", "group", "mean", "std", "count"]]
    table.attrs["sample"] = f"means over {int(table['count'].sum() / max(1, table['layer'].nunique())):,} tokens"
    encoding = {"kind": "grid", "x": "group", "y": "layer", "value": "mean", "x_title": ""}
    return Figure(f"{name}_by_{by}", "", lambda run: table, encoding, lambda table: by_group(kind, measure, table))


def by_group(kind: Kind, measure: str, table: pandas.DataFrame) -> str:
    """Where it is largest, if there is more than one place where it could be."""
    top, title = table.loc[table["mean"].idxmax()], style(measure).title
    where = f"“{top['group']}” in layer {top['layer']}"
    if len(table) == 1:
        return f"{kind.says}: {top['mean']:.0%} of {where}, by {title}"
    return f"{kind.says}: most of {where}, {top['mean']:.0%}, by {title}"


def _pairs(run: Run) -> pandas.DataFrame:
    names = [name for name in run.arrow("pairs").schema.names if name in variables()]
    table = run.arrow("pairs").to_table(columns=["kind", "coreferent", "layer", *names]).to_pandas()
    which = table["coreferent"].map({True: "coreferent", False: "not coreferent"}).fillna(table["kind"])
    means = table.assign(pair=which).groupby(["pair", "layer"], as_index=False)[names].mean()
    long = means.melt(["pair", "layer"], var_name="measure", value_name="mean").dropna(subset=["mean"])
    long = long.assign(measure=long["measure"].map(lambda name: style(name).title))
    long.attrs["sample"] = f"means over {len(table) // max(1, table['layer'].nunique()):,} pairs"
    return long


PAIRS = Figure(
    "pairs",
    "",
    _pairs,
    {"kind": "lines", "x": "layer", "y": "mean", "color": "pair", "by": "measure", "share": False, "own_scales": True},
    lambda table: "Flow between words, by what they have to do with each other",
)
