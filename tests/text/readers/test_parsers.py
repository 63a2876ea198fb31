"""Every reader beside a parser of a few lines: the same words from the same files, whatever spaces are in them."""

import os
import re

import pytest

import whence
from whence.errors import BadInput
from whence.text.sentence import Mention, Sentence, Word, sentence


def write(tmp_path, content: str, name: str = "a"):
    path = tmp_path / name
    path.write_bytes(content.encode())
    return path


def words(found) -> list[str]:
    return [found.word(place) for place in range(len(found.words))]


def test_entities_keep_spaces_that_are_not_ascii(tmp_path):
    content = "Rund O\n10\u00a0000 B-NUM\nEuro\u2028 O\n"
    (found,) = whence.read(f"ner:{write(tmp_path, content)}")
    assert words(found) == ["Rund", "10\u00a0000", "Euro\u2028"] and found.words[1].labels == {"ner": "B-NUM"}


def test_entities_keep_empty_cells_in_their_columns(tmp_path):
    content = "New York\t\tB-LOC\nis\tVB\tO\n\nA\tB-LOC\n\n\tDT\tO\n\nA DT O\n\nB\tDT\tO\n\nA\tDT\t\n"
    corpus = whence.read(f"ner:{write(tmp_path, content)}", skip_bad=True)
    first, second = corpus
    assert words(first) == ["New York", "is"] and words(second) == ["B"]
    assert corpus.skipped.kinds == {"malformed": 4}
    assert [reason.partition(": ")[2].partition(",")[0] for reason in corpus.skipped.first] == [
        "the line has 2 columns between tabs",
        "the first or the last column is empty",
        "the line has 3 columns between spaces",
        "the first or the last column is empty",
    ]


def test_a_treebank_keeps_spaces_that_are_not_ascii(tmp_path):
    rows = ["\t".join(("1", "10\u00a0000", "10\u2009000", "NUM", "_", "_", "0", "root", "_", "_")), ""]
    (found,) = whence.read(write(tmp_path, "\n".join(rows), "a.conllu"))
    assert words(found) == ["10\u00a0000"] and found.words[0].labels["lemma"] == "10\u2009000"


def rewrite(path):
    path.write_text("Another file.\n" * 3)


def replace(path):
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)


@pytest.mark.parametrize("change", [rewrite, replace, os.unlink])
@pytest.mark.parametrize("limit", [None, 2])
def test_a_file_changed_while_it_is_read_is_an_error(tmp_path, change, limit):
    path = write(tmp_path, "A line.\n" * 20_000, "a.txt")
    reading = iter(whence.read(path, limit=limit, skip_bad=True))
    next(reading)
    change(path)
    with pytest.raises(BadInput, match=r"a\.txt was changed while it was read"):
        list(reading)


@pytest.mark.parametrize(
    "content",
    [
        "The O\ncat B-ANIMAL\n\nIt O\n",
        "-DOCSTART- -X- O O\n\nThe DT B-NP O\ncat NN I-NP O\n",
        "10\u00a0000\tB-NUM\nEuro\tO\n",
        "# text = It is\n1\tIt\tit\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\tis\tbe\tVERB\t_\t_\t0\troot\t_\t_\n",
    ],
)
def test_columns_are_not_read_as_text_by_mistake(tmp_path, content):
    path = write(tmp_path, content, "a.txt")
    with pytest.raises(BadInput, match=rf"looks like columns.* ner:{path} .* conllu:{path} .* text:{path}"):
        whence.read(path)
    assert list(whence.read(f"text:{path}"))


@pytest.mark.parametrize("content", ["He has a B-plan O\nShe has none\n", "1\tone\n2\ttwo\n", "Blood O\n", ""])
def test_text_is_still_text(tmp_path, content):
    assert len(list(whence.read(write(tmp_path, content, "a.txt")))) == content.count("\n")


@pytest.mark.parametrize("length", [3, 300_000])
def test_carriage_returns_alone_are_named_with_the_remedy(tmp_path, length):
    path = write(tmp_path, "A line.\r" * length, "a.txt")
    with pytest.raises(BadInput, match=r"line 1: the file's lines end with carriage returns alone.*convert it: tr "):
        list(whence.read(path))


def test_names_that_are_not_utf8(tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9.txt"
    with open(name, "w") as file:
        file.write("A line.\n")
    for source in (os.fsdecode(name), f"{tmp_path}/*.txt"):
        with pytest.raises(BadInput, match=r"The name of the \w+ .* is not UTF-8"):
            whence.read(source)


@pytest.mark.parametrize("member", ["id", "label", "document"])
def test_surrogates_in_names_of_a_table(tmp_path, member):
    path = write(tmp_path, f'{{"text": "A", "{member}": "x\\udc00"}}\n', "a.jsonl")
    with pytest.raises(BadInput, match=rf"line 1: the column '{member}': .* is not UTF-8"):
        list(whence.read(path, **{member: member}))


def test_surrogates_in_names_of_a_cloze(tmp_path):
    path = write(tmp_path, '{"masked_sentences": ["A [MASK]."], "obj_label": "b\\ud800", "uuid": "1"}\n')
    with pytest.raises(BadInput, match=r"line 1: The label 'answer' .* is not UTF-8"):
        list(whence.read(f"lama:{path}"))


BROKEN = "x\udc00"


@pytest.mark.parametrize(
    "given",
    [
        Sentence("A", id=BROKEN),
        Sentence("A", document=BROKEN),
        Sentence("A", labels={"label": BROKEN}),
        Sentence("A", words=(Word(0, 1, {"ner": BROKEN}),)),
        Sentence("A", words=(Word(0, 1, {BROKEN: "O"}),)),
        Sentence("A", words=(Word(0, 1),), mentions=(Mention(BROKEN, (0,)),)),
        Sentence("A", words=(Word(0, 1),), mentions=(Mention("e", (0,), {"role": BROKEN}),)),
    ],
)
def test_surrogates_in_annotations(given):
    with pytest.raises(BadInput, match=re.escape(r"'x\udc00' is not UTF-8")):
        sentence(given)


@pytest.mark.parametrize("line", ['{"text": "A", "text": "B"}', '{"text": "A", "x": {"text": 1, "text": 2}}'])
def test_members_of_one_name_are_refused(tmp_path, line):
    path = write(tmp_path, f"{line}\n", "a.jsonl")
    with pytest.raises(BadInput, match="line 1: two members are called 'text'"):
        list(whence.read(path))
