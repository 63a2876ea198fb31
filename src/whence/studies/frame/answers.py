"""What one model answers to the items of a study: asked, kept in a folder, and read back without the model."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from whence._spreadsheet import write_csv
from whence.errors import Unsupported, WhenceError
from whence.sealed import Damaged, parsed, sealed, unsealed
from whence.stats.estimate import Estimate
from whence.studies.frame.context import Context
from whence.studies.frame.study import Asked, Claim, Left, Study

FILE = "answers.json"
_ESTIMATE = {"value": float | None, "draws": [float | None], "documents": range(2**63), "unit": str}
_SHAPE = {"made": str, "about": dict, "claims": {str: {str: _ESTIMATE}}, "tables": {str: dict}, "left": {str: str}}


@dataclass(eq=False)
class Answers:
    """By the name of the item: tables as files, estimates, and reasons why there is nothing."""

    folder: Path
    about: dict[str, Any]
    claims: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    "The name of a table and what is to be said of it beside its rows."
    left: dict[str, str] = field(default_factory=dict)
    refused: list[WhenceError] = field(default_factory=list)
    "What a user can mend: these items are asked again when the study is started again."

    def table(self, name: str) -> pandas.DataFrame:
        table = pandas.read_parquet(self.folder / "tables" / f"{name}.parquet")
        table.attrs = self.tables[name]
        return table


def key(item: Asked) -> str:
    return item.says if isinstance(item, Claim) else item.name


def answered(study: Study, context: Context) -> Answers:
    """Every item asked of the context's model; tables are written at once, so that none is held.

    An item that is refused is left out with its reason, and the study goes on; if all are, it ends with the first one.
    """
    answers = Answers(context.out, context.provenance(study.name))
    (context.out / "tables").mkdir(parents=True, exist_ok=True)
    for section in study.sections:
        missing = ", ".join(sorted(section.needs - context.model.gives))
        family = context.model.anatomy.family
        for item in section.items:
            try:
                if missing:
                    raise Unsupported(f"it needs {missing}, which {family!r} does not give")
                _answer(item, context, answers)
            except WhenceError as error:
                answers.left[key(item)] = str(error).rstrip(".")
                answers.refused += [] if isinstance(error, Unsupported) else [error]
    if answers.refused and not (answers.claims or answers.tables):
        raise answers.refused[0]
    return answers


def _answer(item: Asked, context: Context, answers: Answers) -> None:
    if isinstance(item, Claim):
        estimates = item.statistic(context)
        answers.claims[item.says] = dict(estimates) if isinstance(estimates, Mapping) else {"": estimates}
        return
    table = item.query(context)
    answers.tables[item.name] = {name: value for name, value in table.attrs.items() if isinstance(value, str)}
    write_table(answers.folder / "tables" / item.name, table)


def write_table(stem: Path, table: pandas.DataFrame) -> None:
    write_csv(table, stem.with_suffix(".csv"))
    table.to_parquet(stem.with_suffix(".parquet"), index=False)


def keep(answers: Answers, identity: str) -> None:
    """Writes the answers down, under what they were made from."""
    content = {
        "made": identity,
        "about": json.loads(json.dumps(answers.about, default=str)),
        "claims": {
            says: {name: _plain(estimate) for name, estimate in parts.items()} for says, parts in answers.claims.items()
        },
        "tables": answers.tables,
        "left": answers.left,
    }
    fresh = (answers.folder / FILE).with_suffix(".new")
    fresh.write_bytes(sealed(content))
    fresh.replace(answers.folder / FILE)


def kept(folder: Path, identity: str) -> Answers | None:
    """The answers in a folder, if they were made from the same; None if they have to be asked for again."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        content = unsealed(parsed(path.read_bytes(), str(path)), _SHAPE, str(path))
    except Damaged:
        return None
    there = all((folder / "tables" / f"{name}.parquet").exists() for name in content["tables"])
    if content["made"] != identity or not there:
        return None
    claims = {
        says: {name: _estimate(part) for name, part in parts.items()} for says, parts in content["claims"].items()
    }
    return Answers(folder, content["about"], claims, content["tables"], content["left"])


def _plain(estimate: Estimate) -> dict[str, Any]:
    """JSON has no NaN."""
    value, *draws = (float(number) if np.isfinite(number) else None for number in (estimate.value, *estimate.draws))
    return {"value": value, "draws": draws, "documents": int(estimate.documents), "unit": estimate.unit}


def _estimate(part: Mapping[str, Any]) -> Estimate:
    value, *draws = (np.nan if number is None else number for number in (part["value"], *part["draws"]))
    return Estimate(value, np.array(draws, dtype=np.float64), part["documents"], part["unit"])


def lefts(answers: Answers, study: Study) -> Iterator[tuple[str, Left]]:
    """What is left out, by the name of its item, under the name that readers know it by."""
    for section in study.sections:
        for item in section.items:
            if (why := answers.left.get(key(item))) is not None:
                yield key(item), Left(item.says.rstrip(".") if isinstance(item, Claim) else item.answers, why)
