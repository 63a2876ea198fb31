"""CoNLL-U: GUM read without loss, whatever a random treebank holds read back, and what is refused."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import whence
from whence.errors import BadInput
from whence.text.readers.pairs import head, noun_pronoun
from whence.text.sentence import Mention, Sentence, Word


def naive_blocks(path: Path) -> list[list[str]]:
    return [block.splitlines() for block in path.read_text().strip().split("\n\n")]


@pytest.fixture(params=["sample", "data"])
def known(request):
    """A treebank as read, its blocks, and how many sentences, words, mentions, coreferent and other pairs it has."""
    folder = request.getfixturevalue(request.param)
    name, path, counts = {
        "sample": ("treebank", folder / "treebank.conllu", (6, 75, 28, (9, 21))),
        "data": ("gum", folder / "ud_gum" / "en_gum-ud-dev.conllu", (1575, 28_119, 7897, (586, 7887))),
    }[request.param]
    return request.getfixturevalue(name), naive_blocks(path), counts


def test_a_treebank_is_read_without_loss(known):
    sentences, blocks, (count, words, *_) = known
    assert len(sentences) == len(blocks) == count
    for sentence, block in zip(sentences, blocks, strict=True):
        rows = [line.split("\t") for line in block if re.match(r"\d+\t", line)]
        assert len(sentence.words) == len(rows)
        assert f"# text = {sentence.text}" in block and f"# sent_id = {sentence.id}" in block
        for place, (word, row) in enumerate(zip(sentence.words, rows, strict=True)):
            assert sentence.word(place) == row[1]  # English multiword tokens are spelt by their words
            known = {"lemma": row[2], "upos": row[3], "xpos": row[4], "deprel": row[7]}
            assert word.labels == {name: value for name, value in known.items() if value != "_"}
            assert (0 if word.governor is None else word.governor + 1) == int(row[6])
    assert sum(len(sentence.words) for sentence in sentences) == words


def test_gum_documents_and_empty_nodes(gum, gum_read):
    assert len({sentence.document for sentence in gum}) == 30
    assert all(sentence.id.startswith(sentence.document) for sentence in gum)
    assert gum_read.corpus.skipped.count == 0
    assert gum_read.corpus.skipped.within["empty nodes"] == 12


def naive_mentions(block: list[str]) -> list[tuple[str, tuple[int, ...]]]:
    """Opening and closing brackets counted one by one, with a stack for each entity."""
    stacks: dict[str, list[int]] = {}
    found = []
    for place, row in enumerate(line.split("\t") for line in block if re.match(r"\d+\t", line)):
        value = next((part[7:] for part in row[9].split("|") if part.startswith("Entity=")), "")
        for bracket in re.findall(r"\([^()]+\)?|[^()]+\)", value):
            entity = re.match(r"\(?(\d+)", bracket)[1]
            if bracket.startswith("("):
                stacks.setdefault(entity, []).append(place)
            if bracket.endswith(")"):
                found.append((entity, tuple(range(stacks[entity].pop(), place + 1))))
    return found


def test_mentions(known):
    sentences, blocks, (*_, mentions, _) = known
    total = 0
    for sentence, block in zip(sentences, blocks, strict=True):
        expected = naive_mentions(block)
        assert sorted((mention.entity, mention.words) for mention in sentence.mentions) == sorted(expected)
        total += len(expected)
    assert total == mentions


def test_noun_pronoun_pairs(known):
    sentences, _, (*_, counts) = known
    pairs = [(sentence, pair) for sentence in sentences for pair in noun_pronoun(sentence)]
    coreferent = [(sentence, pair) for sentence, pair in pairs if pair.coreferent]
    assert (len(coreferent), len(pairs) - len(coreferent)) == counts
    for sentence, pair in pairs:
        assert sentence.words[pair.noun].labels["upos"] in ("NOUN", "PROPN")
        assert sentence.words[pair.pronoun].labels["upos"] == "PRON"


@pytest.mark.parametrize(
    ("id", "noun", "pronoun", "coreferent"),
    [
        ("own_fiction_mill-1", "miller", "he", True),
        ("own_fiction_mill-1", "dog", "he", False),
        ("own_fiction_mill-1", "dog", "it", True),
        ("own_fiction_mill-2", "daughter", "herself", True),
        ("own_fiction_mill-2", "neighbours", "she", False),
        ("own_news_bank-1", "Leeds", "its", False),
        ("own_news_bank-1", "owner", "his", True),
        ("own_news_bank-3", "owner", "she", False),
    ],
)
def test_pairs_that_a_reader_would_make(treebank, id, noun, pronoun, coreferent):
    (sentence,) = [sentence for sentence in treebank if sentence.id == id]
    verdicts = {
        pair.coreferent
        for pair in noun_pronoun(sentence)
        if (sentence.word(pair.noun), sentence.word(pair.pronoun)) == (noun, pronoun)
    }
    assert verdicts == {coreferent}


def test_only_the_head_stands_for_a_mention():
    tags = {"her": "PRON", "friend": "NOUN", "left": "VERB"}
    words = tuple(
        Word(4 * n, 4 * n + 3, {"upos": tag}, head)
        for n, (tag, head) in enumerate(zip(tags.values(), [1, 2, None], strict=True))
    )
    sentence = Sentence("her frn lft", words=words, mentions=(Mention("1", (0, 1)), Mention("2", (0,))))
    assert head(sentence, sentence.mentions[0]) == 1
    assert [(pair.noun, pair.pronoun, pair.coreferent) for pair in noun_pronoun(sentence)] == [(1, 0, False)]


def row(number, form, head=0, misc="_", upos="NOUN") -> str:
    return "\t".join([str(number), form, "_", upos, "_", "_", str(head), "dep" if head else "root", "_", misc])


def read(tmp_path, text: str | bytes, **options) -> list[Sentence]:
    path = tmp_path / "a.conllu"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    corpus = whence.read(path, **options)
    return list(corpus) if not options else [corpus, *corpus]


def test_multiword_tokens(tmp_path):
    lines = ["# text = Don't vámonos al mar", "1-2\tDon't" + "\t_" * 8, row(1, "Do"), row(2, "n't", 1)]
    lines += ["3-4\tvámonos" + "\t_" * 8, row(3, "vamos", 1), row(4, "nos", 1)]
    lines += ["5-6\tal" + "\t_" * 8, row(5, "a", 7), row(6, "el", 7), row(7, "mar", 3)]
    (found,) = read(tmp_path, "\n".join(lines))
    assert [found.word(place) for place in range(7)] == ["Do", "n't", "vámonos", "vámonos", "al", "al", "mar"]


def test_the_text_is_made_from_the_words_where_it_is_not_given(tmp_path):
    lines = [
        row(1, "Well", 2, "SpaceAfter=No"),
        row(2, ",", 0),
        row(3, "two  words", 2),
        "3.1" + row(4, "x")[1:].replace("\t0\t", "\t_\t"),
    ]
    corpus, found = read(tmp_path, "\n".join(lines), limit=9)
    assert found.text == "Well, two  words" and [found.word(place) for place in range(3)] == ["Well", ",", "two  words"]
    assert found.id == "a.conllu:1" and found.document == "a.conllu"
    assert corpus.skipped.within["empty nodes"] == 1


def test_mentions_nest_cross_repeat_and_come_in_parts(tmp_path):
    lines = ["# newdoc id = d", "# global.Entity = GRP-etype-infstat-identity"]
    lines += [row(1, "a", 0, "Entity=(1-person-new-A-B(2-place"), row(2, "b", 1, "Entity=(1-person)1)(3[1/2]-thing)")]
    lines += [row(3, "c", 1, "Entity=2)"), row(4, "d", 1, "Entity=(3[2/2])|Other=x=y")]
    (found,) = read(tmp_path, "\n".join(lines))
    assert [(mention.entity, mention.words) for mention in found.mentions] == [
        ("2", (0, 1, 2)),
        ("1", (0, 1)),
        ("3", (1, 3)),
        ("1", (1,)),
    ]
    assert found.mentions[1].labels == {"etype": "person", "infstat": "new"}
    assert found.document == "d"


def test_mentions_on_empty_nodes(tmp_path):
    zero = "1.1\t_\t_\tPRON\t_\t_\t_\t_\t1:nsubj\tEntity=(e1-person)(e2-person"
    lines = [row(1, "a"), zero, row(2, "b", 1, "Entity=e2)")]
    corpus, found = read(tmp_path, "\n".join(lines), limit=9)
    assert [(mention.entity, mention.words) for mention in found.mentions] == [("e2", (1,))]
    assert corpus.skipped.within["mentions without words"] == 1


def test_documents_end_where_the_next_begins(tmp_path):
    text = f"# newdoc id = one\n{row(1, 'a')}\n\n{row(1, 'b')}\n\n# newdoc\n{row(1, 'c')}\n"
    assert [sentence.document for sentence in read(tmp_path, text)] == ["one", "one", "a.conllu:6"]


def test_a_document_begins_even_when_its_first_sentence_is_bad(tmp_path):
    text = f"# newdoc id = one\n{row(1, 'a')}\n\n# newdoc id = two\nbroken\n\n{row(1, 'c')}\n"
    corpus, *found = read(tmp_path, text, skip_bad=True)
    assert [sentence.document for sentence in found] == ["one", "two"] and corpus.skipped.count == 1


def test_blanked_sentences_are_counted(tmp_path):
    text = f"# text = ____ __\n{row(1, '____')}\n{row(2, '__', 1)}\n\n{row(1, 'fill')}\n{row(2, '___', 1)}\n"
    corpus, found = read(tmp_path, text, limit=9)
    assert found.text == "fill ___"
    assert corpus.skipped.kinds == {"blanked": 1} and "line 2" in corpus.skipped.first[0]


FAULTS = {
    "few columns": ("1\ta\tb", "line has 3 columns, and 10", 2),
    "many columns": (row(1, "a") + "\tx", "line has 11 columns", 2),
    "spaces for tabs": (row(1, "a").replace("\t", "  "), "line has 1 columns", 2),
    "an empty column": (row(1, ""), "none of them empty", 2),
    "a number that is none": (row("one", "a"), "'one' is not a valid ID", 2),
    "no number": (row("_", "a"), "the word's number was expected", 2),
    "numbers out of order": (f"{row(1, 'a')}\n{row(3, 'b', 1)}", "number 3 is out of order", 3),
    "numbers from 2": (row(2, "a"), "number 2 is out of order", 2),
    "a number twice": (f"{row(1, 'a')}\n{row(1, 'b')}", "number 1 is out of order", 3),
    "a range without words": ("1-2\tab" + "\t_" * 8 + f"\n{row(1, 'a')}", "is out of order", 2),
    "ranges over each other": (
        "\n".join(["1-2\tab" + "\t_" * 8, row(1, "a"), "2-3\tbc" + "\t_" * 8, row(2, "b", 1), row(3, "c", 1)]),
        "out of order",
        4,
    ),
    "only empty nodes": ("0.1" + "\t_" * 9, "no words", 2),
    "a governor that is none": (row(1, "a", "x"), "'x' is not a valid value", 2),
    "a governor beyond the end": (row(1, "a", 2), "governor 2 is not another", 2),
    "a negative governor": (row(1, "a", -1), "governor -1 is not another", 2),
    "its own governor": (row(1, "a", 1), "governor 1 is not another", 2),
    "a circle": ("\n".join([row(1, "a", 2), row(2, "b", 3), row(3, "c", 2)]), "word 2 go round in a circle", 3),
    "text with other words": (
        f"# text = b\n{row(1, 'a')}",
        "'a' does not stand in the text, which goes on with 'b'",
        3,
    ),
    "text with more words": (f"# text = a b\n{row(1, 'a')}", "words end before the text does, at b", 3),
    "text with fewer words": (f"# text = a\n{row(1, 'a')}\n{row(2, 'b', 1)}", "'b' does not stand", 3),
    "an unclosed mention": (row(1, "a", 0, "Entity=(1-person"), "entity '1' is not closed", 2),
    "an unopened mention": (row(1, "a", 0, "Entity=1)"), "entity '1' is closed and was not opened", 2),
    "a mention without an end": (row(1, "a", 0, "Entity=(7[1/2]-thing)"), "entity '7' is not closed", 2),
    "no brackets": (row(1, "a", 0, "Entity=person"), "is not made of brackets", 2),
    "a bracket too many": (row(1, "a", 0, "Entity=((1-person)"), "is not made of brackets", 2),
    "NUL": (row(1, "a\0"), "NUL", 2),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named_with_their_line_or_counted(tmp_path, name):
    lines, says, number = FAULTS[name]
    text = f"# sent_id = 1\n{lines}\n\n{row(1, 'good')}\n"
    with pytest.raises(BadInput, match=rf"a\.conllu, line {number}: .*{re.escape(says)}.*--skip-bad"):
        read(tmp_path, text)
    corpus, found = read(tmp_path, text, skip_bad=True)
    assert found.text == "good" and corpus.skipped.count == 1 and says in corpus.skipped.first[0]


FORMS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=6).filter(
    lambda form: form.strip("_") and not form.isspace() and "\t" not in form
)


@st.composite
def treebanks(draw) -> tuple[str, list[dict]]:
    """A random sentence as CoNLL-U and as what should be found in it."""
    forms = draw(st.lists(FORMS, min_size=1, max_size=8))
    heads = [0] + [draw(st.integers(1, place)) for place in range(1, len(forms))]  # every governor is further left
    spaced = [draw(st.booleans()) for _ in forms]
    spans = draw(st.lists(st.tuples(st.integers(0, len(forms) - 1), st.integers(0, 3), st.integers(1, 3)), max_size=4))
    mentions = [(str(entity), start, min(start + more, len(forms) - 1)) for start, more, entity in spans]
    merged = draw(st.sets(st.integers(0, len(forms) - 2))) if len(forms) > 1 else set()
    merged = {place for place in merged if place - 1 not in merged}  # starts of multiword tokens of two words
    lines, text = [], ""
    for place, form in enumerate(forms):
        opened = [m for m in mentions if m[1] == place and m[2] > place]
        closed = [m for m in mentions if m[2] == place and m[1] < place]
        single = [m for m in mentions if m[1] == m[2] == place]
        brackets = "".join(f"({m[0]}-person" for m in sorted(opened, key=lambda m: -m[2]))
        brackets = "".join(f"{m[0]})" for m in closed) + "".join(f"({m[0]}-person)" for m in single) + brackets
        glued = place in merged or (not spaced[place] and place + 1 < len(forms))
        misc = "|".join(filter(None, [f"Entity={brackets}" if brackets else "", "SpaceAfter=No" if glued else ""]))
        if place in merged:
            lines.append(f"{place + 1}-{place + 2}\t{form}{forms[place + 1]}" + "\t_" * 8)
        lines.append(row(place + 1, form, heads[place], misc or "_"))
        if draw(st.booleans()) and not draw(st.booleans()):
            lines.append(f"{place + 1}.1\t_\t_\t_\t_\t_\t_\t_\t_\t_")
        text += form + ("" if glued else " ")
    return "\n".join([f"# text = {text}", *lines]) + "\n\n", {"forms": forms, "heads": heads, "mentions": mentions}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(treebanks(), min_size=1, max_size=3))
def test_what_is_written_is_read(tmp_path, sentences):
    found = read(tmp_path, "".join(text for text, _ in sentences))
    assert len(found) == len(sentences)
    for sentence, (_, expected) in zip(found, sentences, strict=True):
        assert [sentence.word(place) for place in range(len(sentence.words))] == expected["forms"]
        assert [0 if word.governor is None else word.governor + 1 for word in sentence.words] == expected["heads"]
        mentions = [(entity, tuple(range(first, last + 1))) for entity, first, last in expected["mentions"]]
        assert covered(mentions) == covered([(mention.entity, mention.words) for mention in sentence.mentions])


def covered(mentions) -> list[tuple[str, int, int]]:
    """Which brackets open and close where: two mentions of one entity that cross cannot be told from two that nest."""
    return sorted(
        [(entity, words[0], 0) for entity, words in mentions] + [(entity, words[-1], 1) for entity, words in mentions]
    )
