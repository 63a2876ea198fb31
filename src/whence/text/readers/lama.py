"""LAMA: sentences with a word masked, and the word.

Petroni et al. 2019; negated and misprimed: Kassner and Schütze 2020.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from whence.errors import BadInput
from whence.text.readers.lines import STANDARD_INPUT
from whence.text.readers.plain import place
from whence.text.readers.rows import Row, json_rows
from whence.text.readers.skipped import Skipped
from whence.text.sentence import MASK, Sentence, check, check_names

RELATIONS = "relations.jsonl"
# kind of cloze -> the member of an item that holds it
CLOZES = {
    "statement": "masked_sentences",
    "negated": "masked_negations",
    "misprimed": "masked_misprimed",
    "evidence": "evidences",
}


def lama(path: str, skipped: Skipped, cloze: str = "statement", relations: str | None = None) -> Iterator[Sentence]:
    """Each item is a cloze.

    T-REx items have no statement of their own: it is made from the relation's template, "[X] was born in [Y] .", in
    `relations` (by default the file relations.jsonl next to the corpus). With cloze="evidence" the clozes are the
    sentences in which T-REx found the fact.
    """
    if cloze not in CLOZES:
        raise BadInput(f"There is no cloze {cloze!r} in LAMA; there are {', '.join(CLOZES)}.")
    templates = _templates(path, relations)
    for row in json_rows(path, skipped):
        try:
            clozes = list(_sentences(path, row, cloze, templates))
        except BadInput as error:
            skipped.bad("malformed", str(error), row.number)
            continue
        yield from clozes


def _templates(path: str, relations: str | None) -> dict[str, str]:
    """Relation -> template."""
    beside = Path(path).parent / RELATIONS
    if relations is None and (path == STANDARD_INPUT or not beside.exists()):
        return {}
    file = relations or str(beside)
    rows = json_rows(file, Skipped(file))
    return {str(row.cells.get("relation")): str(row.cells.get("template")) for row in rows}


def _sentences(path: str, row: Row, cloze: str, templates: Mapping[str, str]) -> Iterator[Sentence]:
    id = str(row.cells.get("uuid") or row.cells.get("id") or place(path, row.number))
    labels = _labels(row)
    if cloze == "evidence":
        for number, (text, surface) in enumerate(_evidences(row), 1):
            yield _checked(text, f"{id}:{number}", id, labels | {"surface": surface})
    else:
        yield _checked(_statement(row, CLOZES[cloze], templates), id, id, labels)


def _labels(row: Row) -> dict[str, str]:
    answer = row.cells.get("obj_label")
    if not isinstance(answer, str) or not answer:
        raise BadInput("the item has no 'obj_label', which is the answer.")
    relation = row.cells.get("predicate_id") or row.cells.get("pred")
    known = {"answer": answer, "subject": row.cells.get("sub_label"), "relation": relation}
    return {name: str(value) for name, value in known.items() if value}


def _statement(row: Row, member: str, templates: Mapping[str, str]) -> str:
    parts = row.cells.get(member)
    if isinstance(parts, list) and parts and all(isinstance(part, str) for part in parts):
        return " ".join(parts)
    template = templates.get(str(row.cells.get("predicate_id")))
    if member != CLOZES["statement"] or template is None:
        raise BadInput(
            f"the item has no {member!r}, and there is no template for its relation"
            f" {row.cells.get('predicate_id')!r} in {RELATIONS}."
        )
    return template.replace("[Y]", MASK).replace("[X]", str(row.cells.get("sub_label")))


def _evidences(row: Row) -> Iterator[tuple[str, str]]:
    facts = row.cells.get(CLOZES["evidence"])
    if not isinstance(facts, list) or not all(isinstance(fact, dict) and "masked_sentence" in fact for fact in facts):
        raise BadInput("the item has no 'evidences' with a 'masked_sentence' each.")
    return ((fact["masked_sentence"], str(fact.get("obj_surface", ""))) for fact in facts)


def _checked(text: str, id: str, document: str, labels: Mapping[str, str]) -> Sentence:
    check(text)
    if MASK not in text:
        raise BadInput(f"the sentence has no {MASK}: {text!r:.60}.")
    sentence = Sentence(text, id=id, document=document, labels=labels)
    check_names(sentence)
    return sentence
