"""The table of all model types in the documentation, from what the sweep found."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import transformers

from tests.sweep.examine import EVERYTHING, FULL, OUTCOMES, PARTIAL, REFUSED, TEXTLESS, UNBUILT

BEGIN, END = "<!-- written by make families: begin -->", "<!-- written by make families: end -->"
# why a type is refused or not built, by words of what was said
REASONS = {
    "encoder-decoder": "an encoder-decoder",
    "on tokens alone": "needs more than tokens",
    "no list of blocks": "no list of blocks that read all tokens once",
    "without calling them": "its blocks are not called as modules",
    "failed the check": "failed a check at loading",
    "no model class": "a configuration without a model of its own",
    "library but it was not found": "needs a library that is not installed",
    "parameters": "has no small size",
}


def write(records: list[dict[str, Any]], page: Path) -> None:
    """Puts the table between its marks on the page."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise LookupError(f"{page} has no place for the table: it lies between {BEGIN!r} and {END!r}")
    page.write_text(f"{before}{BEGIN}\n{table(records)}\n{END}{after}")


def table(records: list[dict[str, Any]]) -> str:
    """Counts of all outcomes, then the types by what they give and by why not."""
    counts = Counter(record["verdict"]["outcome"] for record in records)
    listed = ", ".join(f"{outcome} {counts[outcome]}" for outcome in OUTCOMES)
    groups = defaultdict(list)
    for record in records:
        groups[_row(record["verdict"])].append(record["type"])
    order = sorted(groups, key=lambda row: (OUTCOMES.index(row[0]), -len(groups[row]), row[1]))
    rows = [
        f"| {outcome} | {what} | {len(groups[outcome, what])} | {_names(groups[outcome, what])} |"
        for outcome, what in order
    ]
    head = ["| | | types | |", "|---|---|---|---|"]
    return "\n".join([f"transformers {transformers.__version__}, {len(records)} types: {listed}.", "", *head, *rows])


def _row(verdict: dict[str, Any]) -> tuple[str, str]:
    outcome, said = verdict["outcome"], verdict["said"]
    if outcome == FULL:
        return outcome, "everything"
    if outcome == PARTIAL:
        missing = sorted(EVERYTHING - set(verdict["gives"]))
        return outcome, f"without {', '.join(missing)}"
    if outcome == TEXTLESS:
        return outcome, "pictures, sound or something else alone"
    if outcome in (REFUSED, UNBUILT):
        found = (reason for words, reason in REASONS.items() if words in said)
        return outcome, next(found, "its configuration cannot be made small here" if outcome == UNBUILT else said)
    return outcome, said.replace("|", "/")


def _names(kinds: list[str]) -> str:
    return ", ".join(f"`{kind}`" for kind in sorted(kinds))
