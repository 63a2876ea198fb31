"""Every format read from the shared data: how many sentences, and what is in them."""

import functools
import gzip
import io
import json
import os
import pickle
import sys
import threading
import tracemalloc

import pytest
import zstandard

import whence
from whence.errors import BadInput
from whence.text import readers
from whence.text.readers.lines import LONGEST
from whence.text.sentence import Sentence, sentence

COUNTS = {
    "{}/enwiki/excerpt_5MB.txt": 10083,
    "text:{}/wikitext103/wiki.valid.tokens": 2461,
    "paragraphs:{}/wikitext103/wiki.valid.tokens": 1160,
    "mrpc:{}/mrpc/dev.tsv": 408,
    "cola:{}/cola/in_domain_dev.tsv": 527,
    "cola:{}/cola/*.tsv": 1043,
    "mnli:{}/mnli/dev_first1500.jsonl": 1500,
    "sst2:{}/sst2/dev.tsv": 872,
    "gap:{}/gap/gap-development.tsv": 2000,
    "ner:{}/wikigold/wikigold.conll.txt": 1696,
    "lama:{}/lama/squad.jsonl": 305,
    "lama:{}/lama/trex_*.jsonl": 977 + 944 + 952,
    "lama:{}/lama/conceptnet_146.jsonl": 146,
}


@functools.cache
def everything(source: str) -> tuple[readers.Corpus, list[Sentence]]:
    corpus = whence.read(source)
    return corpus, list(corpus)


@pytest.mark.parametrize(("source", "count"), COUNTS.items())
def test_counts_of_the_shared_data(data, source, count):
    corpus, found = everything(source.format(data))
    assert [sentence(each) for each in found] == found
    assert len(found) == count
    assert corpus.skipped.count == 0
    assert len({each.id for each in found}) == count
    assert all(each.document for each in found)


def test_a_corpus_is_read_again_and_its_description_travels(data):
    corpus = whence.read(data / "sst2" / "dev.tsv", text="text_a", label="label", limit=7)
    assert (corpus.name, corpus.format) == ("dev", "tsv")
    first = list(corpus)
    assert len(first) == 7 and list(corpus) == first
    assert list(pickle.loads(pickle.dumps(corpus))) == first


def test_pairs_and_labels(data):
    mrpc = list(whence.read(f"mrpc:{data}/mrpc/dev.tsv"))
    assert mrpc[0].text.startswith("He said the foodservice pie") and mrpc[0].pair.endswith("growth strategy .")
    assert [each.labels["label"] for each in mrpc[:3]] == ["1", "0", "0"]
    mnli = next(iter(whence.read(f"mnli:{data}/mnli/dev_first1500.jsonl")))
    assert (mnli.text, mnli.labels) == ("The new rights are nice enough", {"label": "neutral"})
    cola = list(whence.read(f"cola:{data}/cola/in_domain_dev.tsv"))
    assert cola[4].text == "As you eat the most, you want the least." and cola[4].labels == {"label": "0"}


def test_mrpc_has_the_published_number_of_tokens(data, builtin):
    pairs = list(whence.read(f"mrpc:{data}/mrpc/dev.tsv"))
    coded = builtin.tokenizer([each.text for each in pairs], [each.pair for each in pairs])
    assert sum(map(len, coded["input_ids"])) == 21_723


def test_documents_of_plain_text(tmp_path):
    (tmp_path / "a.txt").write_text("One.\nTwo.\n\n \nThree.\n")
    found = list(whence.read(tmp_path / "a.txt"))
    assert [(each.text, each.document) for each in found] == [
        ("One.", "a.txt:1"),
        ("Two.", "a.txt:1"),
        ("Three.", "a.txt:2"),
    ]
    assert [each.id for each in found] == ["a.txt:1", "a.txt:2", "a.txt:5"]
    paragraphs = list(whence.read(f"paragraphs:{tmp_path}/a.txt"))
    assert [each.text for each in paragraphs] == ["One. Two.", "Three."]


def test_named_columns(tmp_path):
    (tmp_path / "a.csv").write_text('n,first,"second one"\n7,"Hello, ""you""","two\nlines"\n8,a,b\n')
    found = list(whence.read(tmp_path / "a.csv", text="first", pair="second one", id="n"))
    assert [(each.id, each.text, each.pair) for each in found] == [("7", 'Hello, "you"', "two\nlines"), ("8", "a", "b")]
    (tmp_path / "a.tsv").write_text('x\t"open\ny\tb\n')
    assert [each.text for each in whence.read(tmp_path / "a.tsv", text="2", header=False)] == ['"open', "b"]
    (tmp_path / "a.jsonl").write_text('{"text": "t", "gold": true, "doc": 3}\n\n')
    (found,) = whence.read(tmp_path / "a.jsonl", label="gold", document="doc")
    assert found == Sentence("t", id="a.jsonl:1", document="3", labels={"label": "True"})


def test_lama(data, tmp_path):
    trex = next(iter(whence.read(f"lama:{data}/lama/trex_P19.jsonl")))
    assert trex.text == "Allan Peiper was born in [MASK] ."
    assert trex.labels == {"answer": "Alexandra", "subject": "Allan Peiper", "relation": "P19"}
    evidence = list(whence.read(f"lama:{data}/lama/trex_P19.jsonl", cloze="evidence"))
    assert len(evidence) == 2361 and evidence[0].labels["surface"] == "Alexandra, Victoria"
    assert evidence[0].document == evidence[1].document == trex.id
    texts = {
        cloze: next(iter(whence.read(f"lama:{data}/lama/conceptnet_146.jsonl", cloze=cloze))).text
        for cloze in ("statement", "negated", "misprimed")
    }
    assert texts == {
        "statement": "Contemplating requires [MASK].",
        "negated": "Contemplating does not require [MASK].",
        "misprimed": "Action? Contemplating requires [MASK].",
    }
    (tmp_path / "trex.jsonl").write_text('{"obj_label": "a", "sub_label": "b [Y]", "predicate_id": "P1"}\n')
    with pytest.raises(BadInput, match=r"trex.jsonl, line 1: .*no template .*'P1'"):
        list(whence.read(f"lama:{tmp_path}/trex.jsonl"))
    (tmp_path / "own.jsonl").write_text('{"relation": "P1", "template": "[X] is [Y]."}\n')
    (found,) = whence.read(f"lama:{tmp_path}/trex.jsonl", relations=str(tmp_path / "own.jsonl"))
    assert found.text == "b [Y] is [MASK]."


def test_gap(data):
    _, found = everything(f"gap:{data}/gap/gap-development.tsv")
    first = found[0]
    words = [" ".join(first.word(place) for place in mention.words) for mention in first.mentions]
    assert words == ["her", "Cheryl Cassidy", "Pauline"]
    pronoun, a, b = first.mentions
    assert pronoun.entity == a.entity != b.entity
    assert first.labels == {"A": "True", "B": "False"}
    coreferent = sum(mention.entity == each.mentions[0].entity for each in found for mention in each.mentions[1:])
    with (data / "gap" / "gap-development.tsv").open() as lines:
        assert coreferent == sum(line.count("\tTRUE\t") for line in lines)


def test_named_entities(data):
    _, found = everything(f"ner:{data}/wikigold/wikigold.conll.txt")
    assert found[0].text == "010 is the tenth album from Japanese Punk Techno band The Mad Capsule Markets ."
    assert [found[0].word(place) for place in range(3)] == ["010", "is", "the"]
    assert found[0].words[0].labels == {"ner": "I-MISC"}
    assert sum(word.labels["ner"] != "O" for each in found for word in each.words) == 1447 + 1392 + 1958 + 1634
    assert len({each.document for each in found}) == 145


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_compression(tmp_path, ending):
    plain = "".join(f"Line {number}.\n" for number in range(5000)).encode()
    packers = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}
    packed = packers[ending](plain[:30_000]) + packers[ending](plain[30_000:])  # two members, as appending makes them
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(packed)
    corpus = whence.read(path)
    assert corpus.name == "a"
    assert [each.text for each in corpus] == plain.decode().splitlines()
    if ending:
        path.write_bytes(packed[: len(packed) * 3 // 4])
        with pytest.raises(BadInput, match=r"a\.txt.* cannot be read past line \d+"):
            list(whence.read(path, skip_bad=True))


def stdin(monkeypatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_standard_input_is_read_once(monkeypatch):
    stdin(monkeypatch, b"one\ntwo\n")
    corpus = whence.read("stdin:")
    assert [each.text for each in corpus] == ["one", "two"]
    assert corpus.name == "stdin"
    with pytest.raises(BadInput, match="once"):
        iter(corpus)
    stdin(monkeypatch, b'{"text": "three"}')
    assert [each.text for each in whence.read("jsonl:stdin:")] == ["three"]


FIRST = {
    "text": "one\n",
    "paragraphs": "one\n\n",
    "tsv": "text\none\n",
    "csv": "text\none\n",
    "jsonl": '{"text": "one"}\n',
    "conllu": "1\tone\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n",
    "ner": "one O\n\n",
    "lama": '{"masked_sentences": ["one [MASK]"], "obj_label": "x"}\n',
}


@pytest.mark.parametrize("format", FIRST)
def test_a_sentence_comes_before_the_rest_is_there(monkeypatch, format):
    """The pipe stays open: a reader that asked for more than it needs would wait for ever."""
    reading, writing = os.pipe()
    os.write(writing, FIRST[format].encode())
    with open(reading, "rb") as stream:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        late = threading.Timer(20, os.close, [writing])  # so that a failure does not hang
        late.start()
        iterator = iter(whence.read(f"{format}:stdin:"))
        assert next(iterator).text.startswith("one")
        assert late.is_alive()
        late.cancel()
        os.close(writing)


def test_memory_stays_flat(tmp_path):
    def peak(count: int) -> int:
        path = tmp_path / "a.txt"
        path.write_bytes(b"A line that is neither short nor long, as lines are.\n" * count)
        tracemalloc.start()
        assert sum(1 for _ in whence.read(path)) == count
        _, found = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return found

    peak(10)
    assert peak(8_000) < peak(400) + 50_000  # the file grows by 400 kB


def test_a_line_of_gigabytes_is_not_held(tmp_path):
    path = tmp_path / "a.txt"
    with path.open("wb") as stream:
        stream.write(b"good\n")
        stream.seek(200_000_000)  # a hole in the file: NUL bytes, no line end
        stream.write(b"x\nalso good\n")
    tracemalloc.start()
    corpus = whence.read(path, skip_bad=True)
    assert [each.text for each in corpus] == ["good", "also good"]
    assert corpus.skipped.kinds == {"too long": 1}
    assert tracemalloc.get_traced_memory()[1] < 8 * LONGEST
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        ("missing.txt", {}, "no file 'missing.txt'"),
        ("mrpc:missing.tsv", {}, "no file 'missing.tsv'"),
        ("shards/*.txt", {}, r"No file is called 'shards/\*.txt'"),
        ("words.doc", {}, "not known from its name.*text:words.doc.*lama"),
        (".", {}, "'.' is a folder; name its files"),
        ("text:.", {}, "is a folder"),
        ("stdin:", {"text": "x"}, "format text has no option 'text'; it has none"),
        ("tsv:stdin:", {"colour": "x"}, "no option 'colour'; its options are text, pair"),
        ("stdin:", {"limit": -1}, "-1 was given"),
    ],
)
def test_refused_when_named(source, options, says):
    with pytest.raises(BadInput, match=says):
        whence.read(source, **options)


def test_a_format_that_is_not_there(tmp_path):
    (tmp_path / "a.txt").write_text("One.\n")
    with pytest.raises(BadInput, match=r"no format 'foo'; there are .*mrpc"):
        whence.read(f"foo:{tmp_path / 'a.txt'}")


def test_datasets(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    rows = [{"sentence": f"Row {number}.", "n": number} for number in range(5)]
    table = datasets.Dataset.from_list(rows)
    table.to_parquet(tmp_path / "a.parquet")
    table.save_to_disk(tmp_path / "folder")
    datasets.DatasetDict(dev=table, test=table.select([0])).save_to_disk(tmp_path / "splits")
    expected = [(row["sentence"], str(row["n"])) for row in rows]
    for source, options in (
        (str(tmp_path / "a.parquet"), {}),
        (f"hf:{tmp_path}/folder", {}),
        (str(tmp_path / "folder" / "data-00000-of-00001.arrow"), {}),
        (f"hf:{tmp_path}/splits", {"split": "dev"}),
    ):
        corpus = whence.read(source, text="sentence", label="n", **options)
        assert [(each.text, each.labels["label"]) for each in corpus] == expected
        assert len(list(corpus)) == 5
    with pytest.raises(BadInput, match="splits dev, test"):
        list(whence.read(f"hf:{tmp_path}/splits"))
    with pytest.raises(BadInput, match=r"no column 'nothing'.*'sentence', 'n'"):
        list(whence.read(str(tmp_path / "a.parquet"), text="nothing", skip_bad=True))
    with pytest.raises(BadInput, match="cannot be read"):
        list(whence.read("hf:nobody/nothing"))


def test_json_members_of_the_wrong_kind(tmp_path):
    rows = [{"text": "good"}, {"text": 5}, {"text": None}, {"other": "x"}, ["text"], {"text": " "}, {"text": "a\0b"}]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + '\n{"text": "\\ud800"}\n{"text"')
    corpus = whence.read(tmp_path / "a.jsonl", skip_bad=True)
    assert [each.text for each in corpus] == ["good"]
    assert corpus.skipped.count == 8
    assert [reason.split(", ")[1].split(":")[0] for reason in corpus.skipped.first] == [
        f"line {n}" for n in range(2, 10)
    ]
