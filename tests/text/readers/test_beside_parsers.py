"""Every reader beside a parser of one line: the same strange file, and no word is lost or moved."""

import csv
import io
import json
import random

import pytest

import whence

STRANGE = ("\u00a0", "\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\u3000", "\ufeff", "\u200b", "é", "日", " ")
GAP = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL"
# what stands first, and a record with {0} and {1} for words, {2} for a cell that may be empty
FILES = {
    "text": ("", "{0} {1}"),
    "paragraphs": ("", "{0}\n{1}\n"),
    "tsv": ("text\tx\tlabel", "{0}\t{2}\t{1}"),
    "csv": ("text,x,label", '"{0}",{2},{1}'),
    "jsonl": ("", '{{"text": "{0}", "x": "{2}", "label": "{1}"}}'),
    "conllu": ("", "1\t{0}\t{1}\tX\t_\t_\t0\troot\t_\t_\n2\t{1}\t_\tX\t_\t_\t1\tdep\t_\t_\n"),
    "ner": ("", "{0}\t{2}\tB-{1}\n{1}\t{2}\tO\n"),
    "mrpc": ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "1\t{2}\t8\t{0}\t{1}"),
    "cola": ("", "{1}\t1\t{2}\t{0}"),
    "mnli": ("", '{{"premise": "{0}", "hypothesis": "{1}", "label": "{2}"}}'),
    "sst2": ("label\tx\ttext_a", "{1}\t{2}\t{0}"),
    "gap": (GAP, "{1}\tshe {0} b\tshe\t0\tshe\t0\tTRUE\tshe\t0\tFALSE\t{2}"),
    "lama": ("", '{{"masked_sentences": ["{0}", "[MASK]"], "obj_label": "{1}", "x": "{2}"}}'),
}
ENDINGS = {"mnli": ".jsonl"}
OPTIONS = {format: {"label": "label"} for format in ("tsv", "csv", "jsonl")}


def strange_file(format: str, dice: random.Random) -> bytes:
    """Three records with strange letters inside and at the edges of words, in one of the ways files are written."""
    head, record = FILES[format]

    def word() -> str:
        return dice.choice(("a", "Ab", "")) + dice.choice(STRANGE[:-1]) + "b" + dice.choice(("", "c", *STRANGE[:-1]))

    def plain(text: str) -> str:  # JSON has no bare control letters
        return "".join(letter for letter in text if letter >= " ") if "{{" in record else text

    rows = [record.format(plain(word()), plain(word()), dice.choice(("", "y"))) for _ in range(3)]
    blank = dice.choice(("", "\n")) if format != "csv" else ""
    content = "\n".join(([head] if head else []) + [blank + row for row in rows]) + dice.choice(("", "\n", "\n\n"))
    mark = dice.choice(("", "\ufeff"))
    return (mark + content.replace("\n", dice.choice(("\n", "\r\n")))).encode()


def lines(content: bytes) -> list[str]:
    text = content.decode().removeprefix("\ufeff")
    return [line.removesuffix("\r") for line in text.split("\n")]


def blocks(content: bytes) -> list[list[str]]:
    return [block.split("\n") for block in "\n".join(lines(content)).strip("\n").split("\n\n") if block.strip("\n")]


def rows(content: bytes) -> list[list[str]]:
    return [line.split("\t") for line in lines(content) if line]


def objects(content: bytes) -> list[dict[str, str]]:
    return [json.loads(line) for line in lines(content) if line]


# what a format says, by the shortest code there is for it
PARSERS = {
    "text": lambda content: [[line.strip()] for line in lines(content) if line],
    "paragraphs": lambda content: [[" ".join(line.strip() for line in block if line)] for block in blocks(content)],
    "tsv": lambda content: [[text, label] for text, _, label in rows(content)[1:]],
    "csv": lambda content: [
        [row[0], row[2]] for row in csv.reader(io.StringIO("\n".join(lines(content)), newline="")) if row
    ][1:],
    "jsonl": lambda content: [[each["text"], each["label"]] for each in objects(content)],
    "conllu": lambda content: [[line.split("\t")[1] for line in block if line] for block in blocks(content)],
    "ner": lambda content: [
        [line.split("\t")[place] for line in block if line for place in (0, 2)] for block in blocks(content)
    ],
    "mrpc": lambda content: [[first, second, label] for label, _, _, first, second in rows(content)[1:]],
    "cola": lambda content: [[text, label] for _, label, _, text in rows(content)],
    "mnli": lambda content: [[each["premise"], each["hypothesis"], each["label"]] for each in objects(content)],
    "sst2": lambda content: [[text, label] for label, _, text in rows(content)[1:]],
    "gap": lambda content: [[row[1], row[0]] for row in rows(content)[1:]],
    "lama": lambda content: [[f"{each['masked_sentences'][0]} [MASK]", each["obj_label"]] for each in objects(content)],
}


def said(format: str, found) -> list[str]:
    """What a sentence holds of that."""
    if format == "conllu":
        return [found.word(place) for place in range(len(found.words))]
    if format == "ner":
        return [part for place, word in enumerate(found.words) for part in (found.word(place), word.labels["ner"])]
    if format == "gap":
        return [found.text, found.id]
    known = found.labels.get("label", found.labels.get("answer"))
    return [*found.texts, *([known] if known is not None else [])]


@pytest.mark.parametrize("format", FILES)
def test_the_same_words_as_an_independent_parser(tmp_path, format):
    path = tmp_path / f"a{ENDINGS.get(format, '')}"
    for seed in range(60):
        content = strange_file(format, random.Random(seed))
        path.write_bytes(content)
        found = [said(format, each) for each in whence.read(f"{format}:{path}", **OPTIONS.get(format, {}))]
        assert found == PARSERS[format](content), (seed, content)
