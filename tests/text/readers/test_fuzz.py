"""Broken files of every format: an error with file and line, or a counted skip; nothing lost in silence."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import whence
from whence.errors import BadInput
from whence.text.readers.lines import LONGEST
from whence.text.readers.skipped import SHOWN
from whence.text.sentence import Sentence, sentence

CONLLU = "1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\tEntity=(1-person\n2\tcat\tcat\tNOUN\t_\t_\t0\troot\t_\tEntity=1)\n\n"
GAP_HEAD = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
GAP_ROW = "d-1\tAnn met Eve; she left.\tshe\t13\tAnn\t0\tTRUE\tEve\t8\tFALSE\tx\n"
CLOZE = {"masked_sentences": ["A [MASK]."], "obj_label": "b", "uuid": "1"}

# a sound file of each format, three records behind what is always read first
HEADS = {"tsv": "text\tlabel\n", "csv": "text,label\n", "gap": GAP_HEAD, "sst2": "label\ttext_a\n"}
HEADS["mrpc"] = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
RECORDS = {
    "text": "A line.\n",
    "paragraphs": "A line\nof two.\n\n",
    "tsv": "A line.\t1\n",
    "csv": '"A ""line""",1\n',
    "jsonl": '{"text": "A line."}\n',
    "conllu": CONLLU,
    "ner": "The O\ncat B-PER\n\n",
    "mrpc": "1\t7\t8\tA line.\tAnother.\n",
    "cola": "gj04\t1\t\tA line.\n",
    "mnli": json.dumps({"premise": "A.", "hypothesis": "B.", "label": "neutral"}) + "\n",
    "sst2": "1\tA line.\n",
    "gap": GAP_ROW,
    "lama": json.dumps(CLOZE) + "\n",
}
BLOCKS = ("paragraphs", "conllu", "ner")  # records of several lines, an empty one between them
ENDINGS = {"mnli": ".jsonl"}
LINES = tuple(format for format in RECORDS if format not in (*BLOCKS, "csv"))


def write(tmp_path, format: str, content: bytes) -> str:
    path = tmp_path / f"a{ENDINGS.get(format, '')}"
    path.write_bytes(content)
    return f"{format}:{path}"


def forgiving(source: str) -> tuple[list[Sentence], whence.text.readers.Corpus]:
    corpus = whence.read(source, skip_bad=True)
    return [sentence(each) for each in corpus], corpus


def is_blank(line: bytes) -> bool:
    try:
        return not line.decode().strip()
    except UnicodeDecodeError:
        return False


def records(format: str, content: bytes) -> int:
    """How many there are, counted without the reader."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    lines = [line.removesuffix(b"\r") for line in content.split(b"\n")]
    if format not in BLOCKS:
        empty = (lambda line: not line) if format in ("tsv", "mrpc", "cola", "sst2", "gap") else is_blank
        return sum(not empty(line) for line in lines) - (format in HEADS)
    blocks = [[]]
    for line in lines:
        blocks.append([]) if is_blank(line) else blocks[-1].append(line)
    silent = {"conllu": rb"#", "ner": rb"(-DOCSTART-(\t|$)| *-DOCSTART-( [^\t]*)?$)"}.get(format, rb"\n")

    def is_silent(line: bytes) -> bool:
        return re.match(silent, line) is not None and b"\0" not in line and decodes(line)

    return sum(any(not is_silent(line) for line in block) for block in blocks if block)


def decodes(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("format", RECORDS)
def test_sound_files(tmp_path, format):
    content = HEADS.get(format, "") + 3 * RECORDS[format]
    for variant in (
        content,
        content.replace("\n", "\r\n"),
        "\ufeff" + content.removeprefix("\ufeff"),
        content.rstrip("\n"),
    ):
        found, corpus = forgiving(write(tmp_path, format, variant.encode()))
        assert len(found) == 3 and corpus.skipped.count == 0
        assert found == list(whence.read(write(tmp_path, format, content.encode())))


BREAKS = {
    "NUL": b"A\0B",
    "Latin-1": "caf\xe9".encode("latin-1"),
    "half a character": "日".encode()[:2],
    "an encoded surrogate": b"\xed\xa0\x80",
    "too long": b"x" * (LONGEST + 1),
}


@pytest.mark.parametrize("format", RECORDS)
@pytest.mark.parametrize("name", BREAKS)
def test_broken_lines(tmp_path, format, name):
    record = RECORDS[format].encode()
    first = HEADS.get(format, "").encode() + record
    source = write(tmp_path, format, first + BREAKS[name] + record + 2 * record)
    line = first.count(b"\n") + 1
    with pytest.raises(BadInput, match=rf"a[.\w]*, line {line}: "):
        list(whence.read(source))
    found, corpus = forgiving(source)
    assert len(found) == 3 and corpus.skipped.count == 1
    assert f", line {line}: " in corpus.skipped.first[0] and str(corpus.skipped).startswith("1 skipped, 1 ")


@pytest.mark.parametrize("format", HEADS)
def test_a_broken_header_is_never_skipped(tmp_path, format):
    source = write(tmp_path, format, b"\xe9" + (HEADS[format] + 3 * RECORDS[format]).encode())
    with pytest.raises(BadInput, match=r"a, line 1, which names the columns: byte 0"):
        forgiving(source)
    missing = HEADS[format].replace("text", "x").replace("Text", "x").replace("#1 String", "x")
    with pytest.raises(BadInput, match="no column"):
        forgiving(write(tmp_path, format, (missing + RECORDS[format]).encode()))


def test_columns_of_one_name_are_refused(tmp_path):
    with pytest.raises(BadInput, match="line 1, which names the columns: two columns are called 'text'"):
        forgiving(write(tmp_path, "tsv", b"text\ttext\na\tb\n"))


def test_utf16_is_named(tmp_path):
    with pytest.raises(BadInput, match="line 1: the file is UTF-16, and UTF-8 was expected"):
        list(whence.read(write(tmp_path, "text", "A line.\n".encode("utf-16"))))


def test_a_line_of_a_megabyte_is_read(tmp_path):
    long = "word " * 200_000
    (found,) = whence.read(write(tmp_path, "text", f"{long}\n".encode()))
    assert found.text == long.strip()
    for format, record in (
        ("csv", f'text\n"{long}"\n'),
        ("jsonl", f'{{"text": "{long}"}}\n'),
        ("tsv", f"text\n{long}\n"),
    ):
        (found,) = whence.read(write(tmp_path, format, record.encode()))
        assert found.text == long


@pytest.mark.parametrize("format", BLOCKS)
def test_records_longer_than_a_line_may_be(tmp_path, format):
    row = {"paragraphs": "word " * 200, "conllu": CONLLU.split("\n")[0], "ner": "word" * 50 + " O"}[format]
    rows = f"{row}\n" * (LONGEST // len(row) + 9)
    found, corpus = forgiving(write(tmp_path, format, (rows + "\n" + RECORDS[format]).encode()))
    assert len(found) == 1 and corpus.skipped.kinds == {"too long": 1}


def test_an_open_quotation_mark_takes_only_its_own_row(tmp_path):
    content = 'text,label\ngood,1\n"open,2\nalso good,3\n"two\nlines",4\n'
    found, corpus = forgiving(write(tmp_path, "csv", content.encode()))
    assert "a, line 3: " in corpus.skipped.first[0]
    assert [each.text for each in found] == ["good", "also good", "two\nlines"] and corpus.skipped.count == 1
    found, corpus = forgiving(write(tmp_path, "csv", b'text\ngood\n"open\nalso good\nfine\n'))
    assert [each.text for each in found] == ["good", "also good", "fine"] and corpus.skipped.count == 1
    found, corpus = forgiving(write(tmp_path, "csv", b'text\n"open\n\xe9\nfine\n'))
    assert [each.text for each in found] == ["fine"] and corpus.skipped.count == 2


ROWS = {
    "tsv": ["one", "a\tb\tc", "\t1"],
    "csv": ["one", "a,b,c", ",1", 'a"b,"c"d', '"a"b,1'],
    "jsonl": ["{", "[]", "7", '{"text": 7}', '{"words": "x"}', "[" * 100_000],
    "mrpc": ["1\t7\t8\tA line.", "1\t7\t8\t\tAnother."],
    "cola": ["gj04\t1\tA line."],
    "mnli": ['{"premise": "A.", "label": "neutral"}'],
    "sst2": ["1"],
    "gap": [
        GAP_ROW.replace(*change) for change in (("13", "12"), ("\t0\t", "\t-1\t"), ("TRUE", "yes"), ("13", "9" * 5000))
    ],
    "ner": ["word", "The O\nword"],
}
ROWS["jsonl"] += [f'{{"text": "{letters}"}}' for letters in ("\\u0000", "\\udc00", " ")]
ROWS["lama"] = ["{}"] + [
    json.dumps(CLOZE | change)
    for change in ({"masked_sentences": ["No mask."]}, {"masked_sentences": [7]}, {"obj_label": None})
]


@pytest.mark.parametrize(("format", "row"), [(format, row) for format, rows in ROWS.items() for row in rows])
def test_malformed_rows(tmp_path, format, row):
    sound = HEADS.get(format, "") + RECORDS[format]
    gap = "\n\n" if format in BLOCKS else "\n"
    source = write(tmp_path, format, (sound + row.rstrip("\n") + gap + RECORDS[format]).encode())
    with pytest.raises(
        BadInput, match=rf"a[.\w]*, line {sound.count(chr(10)) + 1 + row.rstrip().count(chr(10))}: .*skip_bad"
    ):
        list(whence.read(source))
    found, corpus = forgiving(source)
    assert len(found) == 2 and corpus.skipped.kinds == {"malformed": 1}


def test_reasons_are_kept_for_the_first_only(tmp_path):
    _, corpus = forgiving(write(tmp_path, "jsonl", b"{\n" * 1000))
    assert corpus.skipped.count == 1000 and len(corpus.skipped.first) == SHOWN


JUNK = st.one_of(
    st.binary(max_size=12),
    st.sampled_from(
        [b"\0", b"\r", b"\xff", b"\n", b"\n\n", b"\t", b'"', b",", b"{", b"}", b"_", b"#", b"\xef\xbb\xbf"]
    ),
    st.sampled_from(
        [b"1\t", b"0\t", b"2-3\t", b"1.1\t", b"(", b")", b"Entity=(", b"-DOCSTART- O\n", b"# newdoc id = x\n"]
    ),
    st.text(max_size=6).map(lambda text: text.encode("utf-8", "surrogatepass")),
)


@st.composite
def broken(draw, format: str) -> bytes:
    """A sound file with bytes put in, taken out or said twice; the header stays."""
    content = bytearray(draw(st.integers(1, 4)) * RECORDS[format].encode())
    for _ in range(draw(st.integers(0, 5))):
        place = draw(st.integers(0, len(content)))
        until = min(len(content), place + draw(st.integers(0, 8)))
        content[place:until] = draw(JUNK) if draw(st.booleans()) else content[place:until] * 2
    return HEADS.get(format, "").encode() + bytes(content)


@pytest.mark.parametrize("format", RECORDS)
def test_every_record_is_read_or_counted(tmp_path, format):
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(broken(format))
    def check(content: bytes) -> None:
        source = write(tmp_path, format, content)
        found, corpus = forgiving(source)
        if format != "csv":  # where records end is the reader's own business there
            assert len(found) + corpus.skipped.count == records(format, content)
        assert sum(corpus.skipped.kinds.values()) == corpus.skipped.count
        if corpus.skipped.count == corpus.skipped.kinds["blanked"]:
            assert list(whence.read(source)) == found
        else:
            with pytest.raises(BadInput) as error:
                list(whence.read(source))
            assert re.search(r"a[.\w]*, line \d+: ", str(error.value))

    check()


@pytest.mark.parametrize("format", RECORDS)
def test_any_bytes_at_all(tmp_path, format):
    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.binary(max_size=300))
    def check(content: bytes) -> None:
        try:
            forgiving(write(tmp_path, format, content))
        except BadInput as error:
            assert "names the columns" in str(error) or "no column" in str(error)

    check()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1, max_size=5))
def test_csv_cells_come_back(tmp_path, texts):
    import csv
    import io

    texts = [text for text in texts if text.strip()] or ["x"]
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerows([["text", "n"], *([text, "1"] for text in texts)])
    found = list(whence.read(write(tmp_path, "csv", buffer.getvalue().encode())))
    # a carriage return before a line feed is part of the line's end, even inside a cell
    assert [each.text for each in found] == [text.replace("\r\n", "\n") for text in texts]
