"""From the answers of one model or many to a report: verdicts, figures and tables, item by item."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas

from whence.models.several import Named
from whence.plot.drawing import Drawing
from whence.stats.estimate import Estimate
from whence.studies.frame.across import MODEL, averaged, together
from whence.studies.frame.answers import Answers, key, lefts
from whence.studies.frame.published import printed
from whence.studies.frame.study import (
    Answered,
    Beside,
    Claim,
    Figure,
    Finding,
    Item,
    Left,
    Section,
    Shown,
    Study,
    Table,
)
from whence.studies.frame.verdict import LEVEL, Interval, interval, intervals, verdict

ALL = "all of them"
ByModel = Sequence[tuple[Named, Answers]]


def reported(study: Study, by_model: ByModel) -> list[Answered]:
    """Every section with its answers. Of checkpoints, the last of each training is what findings are about."""
    last = _last(by_model)
    left = dict(pair for _, answers in reversed(last) for pair in lefts(answers, study))
    sections = []
    for section in study.sections:
        items: list[Item] = []
        for item in section.items:
            there = [pair for pair in last if _has(pair[1], item)]
            items += _resolved(item, there, by_model) if there else [left[key(item)]]
        sections.append(Answered(section, _joined(section, items)))
    return sections


def _last(by_model: ByModel) -> ByModel:
    """Of every training, the checkpoint with most steps; every model whose name ends in no step."""
    most: dict[str, int] = {}
    for named, _ in by_model:
        most[named.series] = max(most.get(named.series, 0), named.step or 0)
    return [pair for pair in by_model if pair[0].step is None or pair[0].step == most[pair[0].series]]


def _has(answers: Answers, item: Any) -> bool:
    return key(item) in (answers.claims if isinstance(item, Claim) else answers.tables)


def _joined(section: Section, items: list[Item]) -> list[Item]:
    """One sentence where a whole section is left out for one reason."""
    reasons = {item.why if isinstance(item, Left) else None for item in items}
    reason = reasons.pop() if len(reasons) == 1 else None
    return items if reason is None else [Left(section.title, reason)]


def _resolved(item: Any, there: ByModel, by_model: ByModel) -> Iterator[Item]:
    if isinstance(item, Claim):
        if item.beside_first and len(there) < 2:
            yield Left(item.says.rstrip("."), "one model was given; name another with --models")
            return
        yield finding(item, {named.name: answers.claims[item.says] for named, answers in there})
        if not item.beside_first:
            yield from _spread(item, there, by_model)
    elif isinstance(item, Figure):
        yield _shown(item, {named.name: answers.table(item.name) for named, answers in there}, _about(there))
    else:
        yield _beside(item, {named.name: answers.table(item.name) for named, answers in there})


def _about(there: ByModel) -> str:
    names = there[0][0].name if len(there) == 1 else f"{len(there)} models"
    return f"{names} · {there[0][1].about['data']}"


def shown(figure: Figure, table: pandas.DataFrame, about: str = "") -> Shown:
    """A figure of one table."""
    return _shown(figure, {"": table}, about)


def _shown(figure: Figure, tables: Mapping[str, pandas.DataFrame], about: str) -> Shown:
    first = next(iter(tables.values()))
    drawn = {name: figure.drawn(table) for name, table in tables.items()}
    rows, encoding = (figure.drawn(first), dict(figure.encoding)) if len(tables) == 1 else together(figure, drawn)
    summary = rows if len(tables) == 1 else _summary(figure, drawn)
    settings = {name: value(rows) if callable(value) else value for name, value in encoding.items()}
    sample = [figure.sample, first.attrs.get("sample", ""), "bands span the models" if _spans(tables, rows) else ""]
    subtitle = "; ".join(filter(None, [*sample, first.attrs.get("about", about)]))
    drawing = Drawing(table=rows, title=figure.sentence(summary), subtitle=subtitle, **settings)
    written = first if len(tables) == 1 else _stacked(tables)
    return Shown(figure.name, figure.answers, drawing, first.attrs.get("note", figure.note), written)


def _spans(tables: Mapping[str, pandas.DataFrame], rows: pandas.DataFrame) -> bool:
    return len(tables) > 1 and {"low", "high"} <= set(rows) and MODEL not in rows


def _summary(figure: Figure, drawn: Mapping[str, pandas.DataFrame]) -> pandas.DataFrame:
    """What the sentence is about: the means over the models, or of points those of the first model."""
    if figure.encoding["kind"] == "points":
        return next(iter(drawn.values()))
    return averaged(figure, pandas.concat(drawn.values(), ignore_index=True))


def _stacked(tables: Mapping[str, pandas.DataFrame]) -> pandas.DataFrame:
    stacked = pandas.concat([table.assign(**{MODEL: name}) for name, table in tables.items()], ignore_index=True)
    return stacked[[MODEL, *(column for column in stacked if column != MODEL)]]


def _beside(item: Table, tables: Mapping[str, pandas.DataFrame]) -> Beside:
    first = next(iter(tables.values()))
    differs = " ".join(filter(None, [first.attrs.get("sample", ""), item.differs]))
    return Beside(item.name, item.answers, first if len(tables) == 1 else _stacked(tables), differs)


def finding(claim: Claim, by_model: Mapping[str, Mapping[str, Estimate]]) -> Finding:
    """The verdict on a claim from the estimates of each model, part by part."""
    if claim.beside_first:
        first, *_ = by_model.values()
        by_model = {
            name: {part: first[part] - parts[part] for part in first} for name, parts in list(by_model.items())[1:]
        }
    names = list(next(iter(by_model.values())))
    parts = intervals({name: [parts[name] for parts in by_model.values() if name in parts] for name in names})
    decided = verdict(parts, claim.criterion)
    single = [{name: [part] for name, part in parts_of.items()} for parts_of in by_model.values()]
    alone = [verdict(intervals(estimates), claim.criterion) for estimates in single]
    counts = (
        {name: alone.count(name) for name in ("confirmed", "contradicted", "undecided")} if len(by_model) > 1 else {}
    )
    return Finding(claim.says, decided, _words(claim, parts, counts), parts, counts)


def _words(claim: Claim, parts: Mapping[str, Interval], counts: Mapping[str, int]) -> str:
    """The intervals, what is asked for, the published number, and how the models stand by themselves."""
    criterion = claim.criterion
    criteria = criterion if isinstance(criterion, Mapping) else {"": criterion}
    measured = ", ".join(
        _interval(name, part, claim.form, criteria.get(name, next(iter(criteria.values()))).span)
        for name, part in parts.items()
    )
    limits = ", ".join(f"{name} {part_criterion.asks(claim.form)}".strip() for name, part_criterion in criteria.items())
    some = next(iter(parts.values()))
    sample = f"{some.documents:,} {some.unit}" if some.documents else "from the weights alone"
    if some.models > 1:
        sample = f"{some.models} models, {sample}"
    if some.few:
        sample += ", too few to decide"
    alone = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    theirs = printed(*claim.published, form=claim.form) if claim.published else ""
    clauses = [f"{measured} ({sample})", f"asked: {limits}", theirs, f"by themselves: {alone}" if alone else ""]
    return "; ".join(filter(None, clauses))


def _interval(name: str, part: Interval, form: str, span: tuple[float, float]) -> str:
    limits = np.clip([part.value, part.low, part.high], *span)
    form = form.replace(".", "z.", 1)  # a zero has no sign
    value, low, high = (f"{number:{form}}" for number in limits.tolist())
    return f"{name} {value} [{low}, {high}]".strip()


def _spread(claim: Claim, there: ByModel, by_model: ByModel) -> Iterator[Shown]:
    """The spread between models beside the spread within; and of checkpoints, the way through the training."""
    if len(there) > 1:
        yield _models(claim, there)
    steps = [(named, answers) for named, answers in by_model if named.step is not None and _has(answers, claim)]
    if len({named.step for named, _ in steps}) > 1:
        yield _training(claim, steps)


def _models(claim: Claim, there: ByModel) -> Shown:
    parts = list(there[0][1].claims[claim.says])
    by_model = {
        named.name: {part: interval([answers.claims[claim.says][part]]) for part in parts} for named, answers in there
    }
    pooled = {part: interval([answers.claims[claim.says][part] for _, answers in there]) for part in parts}
    table = _limits(by_model | {ALL: pooled})
    within = table[table[MODEL] != ALL]
    widths, spread = (within["high"] - within["low"]).mean() / 4, within.groupby("part")["value"].std().mean()
    form = claim.form
    says = claim.says.rstrip(".")
    return Shown(
        f"models_{_plain(claim.says)}",
        "",
        Drawing(
            "intervals",
            table,
            "value",
            MODEL,
            f"{says}: models differ by {spread:{form}}, within one the error is {widths:{form}}",
            "standard deviation between models, mean standard error within;"
            f" lines are {LEVEL:.0%} intervals by document, the last by model and document",
            by="part" if len(parts) > 1 else None,
            share=form.endswith("%"),
            y_title="",
            x_title="",
        ),
    )


def _limits(rows: Mapping[Any, Mapping[str, Interval]]) -> pandas.DataFrame:
    return pandas.DataFrame(
        [
            {MODEL: name, "part": part or "value", "value": interval.value, "low": interval.low, "high": interval.high}
            for name, parts in rows.items()
            for part, interval in parts.items()
        ]
    )


def _training(claim: Claim, steps: ByModel) -> Shown:
    by_step: dict[int, list[Answers]] = {}
    for named, answers in sorted(steps, key=lambda pair: pair[0].step or 0):
        by_step.setdefault(named.step or 0, []).append(answers)
    parts = list(steps[0][1].claims[claim.says])
    limits = {
        step: {part: interval([answers.claims[claim.says][part] for answers in there]) for part in parts}
        for step, there in by_step.items()
    }
    table = _limits(limits).rename(columns={MODEL: "step"})
    (begin, *_, end), says = limits, claim.says.rstrip(".")
    first, last = (limits[step][parts[0]].value for step in (begin, end))
    says = f"{says} ({parts[0]})" if parts[0] else says
    trainings = max(map(len, by_step.values()))
    return Shown(
        f"training_{_plain(claim.says)}",
        "",
        Drawing(
            "lines",
            table,
            "step",
            "value",
            f"{says}: {first:{claim.form}} after step {begin:,}, {last:{claim.form}} after {end:,}",
            f"by training step, {trainings} training{'s' if trainings > 1 else ''}; bands are {LEVEL:.0%} intervals",
            color="part" if len(parts) > 1 else None,
            share=claim.form.endswith("%"),
            x_title="training step",
            y_title="",
        ),
    )


def _plain(says: str) -> str:
    """A file's name from a sentence."""
    words = "".join(letter if letter.isalnum() else " " for letter in says.lower()).split()
    return "_".join(words[:8])


def models_table(study: Study, by_model: ByModel) -> pandas.DataFrame:
    """A row for each model: its step, its layers, and its verdict on every claim by itself."""
    claims = [item for section in study.sections for item in section.items if isinstance(item, Claim)]
    rows = [
        {MODEL: named.name, "step": np.nan if named.step is None else named.step, "layers": answers.about["layers"]}
        | {
            claim.says: finding(claim, {named.name: answers.claims[claim.says]}).verdict
            for claim in claims
            if claim.says in answers.claims and not claim.beside_first
        }
        for named, answers in by_model
    ]
    return pandas.DataFrame(rows).dropna(axis="columns", how="all")
