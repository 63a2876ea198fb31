"""Every format read from the sample, and from the shared data if it is here: how many sentences, what is in them."""

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
OWN = {
    "{}/articles.txt": 18,
    "paragraphs:{}/articles.txt": 6,
    "mrpc:{}/pairs.tsv": 64,
    "cola:{}/acceptable.tsv": 6,
    "mnli:{}/entailment.jsonl": 5,
    "sst2:{}/sentiment.tsv": 9,
    "gap:{}/pronouns.tsv": 4,
    "ner:{}/entities.txt": 3,
    "lama:{}/facts_*.jsonl": 2,
    "lama:{}/statements.jsonl": 14,
}


@functools.cache
def everything(source: str) -> tuple[readers.Corpus, list[Sentence]]:
    corpus = whence.read(source)
    return corpus, list(corpus)


@pytest.mark.parametrize(
    ("folder", "source", "count"),
    [("sample", *own) for own in OWN.items()] + [("data", *published) for published in COUNTS.items()],
)
def test_every_sentence_is_read_once(request, folder, source, count):
    corpus, found = everything(source.format(request.getfixturevalue(folder)))
    assert [sentence(each) for each in found] == found
    assert len(found) == count
    assert corpus.skipped.count == 0
    assert len({each.id for each in found}) == count
    assert all(each.document for each in found)


def test_a_corpus_is_read_again_and_its_description_travels(sample):
    corpus = whence.read(sample / "sentiment.tsv", text="text_a", label="label", limit=7)
    assert (corpus.name, corpus.format) == ("sentiment", "tsv")
    first = list(corpus)
    assert len(first) == 7 and list(corpus) == first
    assert list(pickle.loads(pickle.dumps(corpus))) == first


def test_pairs_and_labels(sample):
    pairs = list(whence.read(f"mrpc:{sample}/pairs.tsv"))
    rows = [line.split("\t") for line in (sample / "pairs.tsv").read_text().splitlines()[1:]]
    assert [(each.labels["label"], each.text, each.pair) for each in pairs] == [(row[0], *row[3:]) for row in rows]
    entailment = list(whence.read(f"mnli:{sample}/entailment.jsonl"))[2]
    assert (entailment.text, entailment.pair) == ("Her train was an hour late.", "She missed the meeting.")
    assert entailment.labels == {"label": "neutral"}
    acceptable = list(whence.read(f"cola:{sample}/acceptable.tsv"))
    assert acceptable[1].text == "The baker sold the last loaf her to." and acceptable[1].labels == {"label": "0"}
    assert acceptable[4].text.endswith('"the lower road" will be closed.')


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


def test_lama(sample, tmp_path):
    fact = next(iter(whence.read(f"lama:{sample}/facts_P19.jsonl")))
    assert fact.text == "Clara Winter was born in [MASK] ."
    assert fact.labels == {"answer": "Leeds", "subject": "Clara Winter", "relation": "P19"}
    evidence = list(whence.read(f"lama:{sample}/facts_P19.jsonl", cloze="evidence"))
    assert len(evidence) == 3 and evidence[0].labels["surface"] == "Leeds, England"
    assert evidence[0].document == evidence[1].document == fact.id != evidence[2].document
    texts = {
        cloze: next(iter(whence.read(f"lama:{sample}/statements.jsonl", cloze=cloze))).text
        for cloze in ("statement", "negated", "misprimed")
    }
    assert texts == {
        "statement": "Fish live in [MASK].",
        "negated": "Fish do not live in [MASK].",
        "misprimed": "Fire? Fish live in [MASK].",
    }
    (tmp_path / "trex.jsonl").write_text('{"obj_label": "a", "sub_label": "b [Y]", "predicate_id": "P1"}\n')
    with pytest.raises(BadInput, match=r"trex.jsonl, line 1: .*no template .*'P1'"):
        list(whence.read(f"lama:{tmp_path}/trex.jsonl"))
    (tmp_path / "own.jsonl").write_text('{"relation": "P1", "template": "[X] is [Y]."}\n')
    (found,) = whence.read(f"lama:{tmp_path}/trex.jsonl", relations=str(tmp_path / "own.jsonl"))
    assert found.text == "b [Y] is [MASK]."


def test_gap(sample):
    _, found = everything(f"gap:{sample}/pronouns.tsv")
    first = found[0]
    words = [" ".join(first.word(place) for place in mention.words) for mention in first.mentions]
    assert words == ["she", "Clara Winter", "Ruth Hale"]
    same = [[mention.entity == each.mentions[0].entity for mention in each.mentions[1:]] for each in found]
    assert same == [[True, False], [False, True], [False, False], [True, False]]
    assert first.labels == {"A": "True", "B": "False"}


def test_named_entities(sample):
    _, found = everything(f"ner:{sample}/entities.txt")
    assert [each.text for each in found] == [
        "Clara Winter left Leeds for the Harbour Bank .",
        "She likes Danish films .",
        "Oslo is cold .",
    ]
    tags = [[word.labels["ner"] for word in each.words if word.labels["ner"] != "O"] for each in found]
    assert tags == [["I-PER", "I-PER", "I-LOC", "I-ORG", "I-ORG"], ["I-MISC"], ["I-LOC"]]
    assert found[0].document == found[1].document != found[2].document


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
