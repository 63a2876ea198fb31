"""Which words are looked at in pairs."""

from collections import Counter

import pytest

import whence
from tests import tiny
from whence.corpus.annotate import coded
from whence.corpus.word_pairs import Pair, pairs
from whence.corpus.word_pairs import _coreference as coreference
from whence.models.encode import encode
from whence.text.sentence import Mention, Sentence, Word


@pytest.fixture(scope="module")
def model():
    return tiny.model()


def of(model, sentence, neighbours=0):
    return pairs(coded(model, 0, encode(model.anatomy, model.tokenizer, sentence)), neighbours)


def sentence(text, tags, heads=None, mentions=(), **more):
    spans, start = [], 0
    for word in text.split():
        spans.append((start, start + len(word)))
        start += len(word) + 1
    heads = heads or [None] * len(spans)
    words = [
        Word(*span, {"upos": tag, "deprel": "rel"}, head)
        for span, tag, head in zip(spans, tags.split(), heads, strict=True)
    ]
    return Sentence(text, words=tuple(words), mentions=tuple(Mention(*each) for each in mentions), **more)


def test_neighbours_in_both_directions_and_within_their_text(model):
    found = {(pair.target, pair.source) for pair in of(model, Sentence("ada bo cy", "dee ed"), 1)}
    assert found == {(0, 1), (1, 0), (1, 2), (2, 1), (3, 4), (4, 3)}
    far = {(pair.target, pair.source) for pair in of(model, Sentence("ada bo cy", "dee ed"), 9)}
    assert len(far) == 3 * 2 + 2 and all((target < 3) == (source < 3) for target, source in far)
    assert of(model, Sentence("ada bo cy"), 0) == []


def test_dependencies_both_ways(model):
    found = of(model, sentence("ada bo cy", "NOUN VERB NOUN", [1, None, 1]))
    assert found == [
        Pair("dependency", 0, 1, "rel", target_is_governor=False),
        Pair("dependency", 1, 0, "rel", target_is_governor=True),
        Pair("dependency", 2, 1, "rel", target_is_governor=False),
        Pair("dependency", 1, 2, "rel", target_is_governor=True),
    ]


def test_coreference_is_between_heads_of_mentions(model):
    """[dee ada] likes fay ; [bo] ...: `ada` is the head of the first mention, `dee` only inside it."""
    given = sentence(
        "dee ada cy fay bo",
        "PROPN PROPN VERB PROPN PRON",
        [1, 2, None, 2, 2],
        [("e1", (0, 1)), ("e1", (4,)), ("e2", (3,))],
    )
    found = {(pair.target, pair.source): pair.coreferent for pair in of(model, given) if pair.kind == "coreference"}
    assert found[1, 4] is True and found[4, 1] is True
    assert found[3, 4] is False and found[4, 3] is False and found[1, 3] is False
    # inside the mention of the same entity, but not its head: neither one nor the other
    assert (0, 4) not in found and (0, 1) not in found
    assert found[0, 3] is False


def test_without_a_tree_the_last_word_is_the_head(model):
    given = sentence("dee ada cy bo", "X X X X", None, [("e1", (0, 1)), ("e1", (3,))])
    coreferent = {(pair.target, pair.source) for pair in of(model, given) if pair.coreferent}
    assert coreferent == {(1, 3), (3, 1)}


def test_without_mentions_nothing_is_known(model):
    assert of(model, sentence("ada bo", "NOUN PRON")) == []


def test_words_that_were_cut_off_have_no_pairs(model, monkeypatch):
    monkeypatch.setattr(model.tokenizer, "model_max_length", 5)
    given = sentence("ada bo cy dee ed fay", "NOUN PRON NOUN NOUN NOUN NOUN", None, [("e1", (0,)), ("e1", (5,))])
    encoded = encode(model.anatomy, model.tokenizer, given, truncate=True)
    found = pairs(coded(model, 0, encoded), 3)
    assert found and max(max(pair.target, pair.source) for pair in found) == 2


@pytest.mark.slow
def test_gum_nouns_and_pronouns(data):
    """Counted over the whole file, and three that a reader would mark too."""
    counts, found = Counter(), set()
    for each in whence.read(data / "ud_gum" / "en_gum-ud-dev.conllu"):
        for pair in coreference(each):
            tags = each.words[pair.target].labels["upos"], each.words[pair.source].labels["upos"]
            if tags[0] == "PRON" and tags[1] in ("NOUN", "PROPN"):
                counts[pair.coreferent] += 1
                found.add((each.text[:30], each.word(pair.target), each.word(pair.source), pair.coreferent))
    assert counts == {True: 586, False: 8268}
    assert ("Byron fell in love with Mary C", "he", "Byron", True) in found
    assert ("Byron fell in love with Mary C", "he", "Chaworth", False) in found
    assert ("The poster at DH2017 will pres", "its", "curriculum", True) in found
