"""Text to tokens and back to words, for several kinds of tokenizer."""

import pytest

from whence.errors import BadInput
from whence.models.encode import encode, limit
from whence.text.align import words
from whence.text.sentence import Sentence, Word, sentence

TEXTS = ["Unbelievable, isn't it?", "Zoë ate naïve café crêpes.", "3.14 is π", "  spaces   everywhere  "]


def coded(model, text, **more):
    return encode(model.anatomy, model.tokenizer, sentence(text), **more)


def test_tokens_words_and_specials(builtin):
    found = coded(builtin, "Paris is the capital of [MASK].")
    assert found.tokens == ["[CLS]", "paris", "is", "the", "capital", "of", "[MASK]", ".", "[SEP]"]
    assert found.words == ["", "Paris", "is", "the", "capital", "of", "[MASK]", ".", ""]
    assert found.special == [True, *[False] * 7, True]


def test_a_pair_has_two_segments(builtin):
    found = coded(builtin, ("One.", "Two words."))
    assert found.batch.segments.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1]]
    assert found.words == ["", "One", ".", "", "Two", "words", ".", ""]


def test_byte_level_pieces_are_legible(smollm2):
    found = coded(smollm2, "The schöne 我")
    assert found.tokens[0] == "The" and found.tokens[1].startswith("▁")
    assert all("Ġ" not in token and "Ã" not in token for token in found.tokens)
    assert found.tokens[-1].startswith("<0x") and set(found.words[-3:]) == {"我"}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", ["builtin", "smollm2"])
def test_every_token_belongs_to_a_word_of_the_text(name, text, request):
    found = coded(request.getfixturevalue(name), text)
    for word, special in zip(found.words, found.special, strict=True):
        assert word in text
        assert not (special and word)
    assert {word for word in found.words if word} == {text[slice(*span)] for span in words(text)}


def test_annotated_words_are_the_ones_given(builtin):
    words = (Word(0, 2), Word(2, 5), Word(6, 10))
    found = coded(builtin, Sentence("Don't stop.", words=words))
    assert found.tokens == ["[CLS]", "don", "'", "t", "stop", ".", "[SEP]"]
    assert found.words_over == [[], [0, 1], [1], [1], [2], [], []]
    assert found.word_ids == [None, 0, 1, 1, 2, None, None]
    assert found.tokens_of_words == [[1], [1, 2, 3], [4]]
    assert found.words == ["", "Do", "n't", "n't", "stop", ".", ""]
    assert found.spans == [None, (0, 3), (3, 4), (4, 5), (6, 10), (10, 11), None]


def test_words_of_a_pair(builtin):
    found = coded(builtin, ("One two.", "Two one."))
    assert [word.in_pair for word in found.sentence.words] == [False] * 3 + [True] * 3
    assert found.word_ids == [None, 0, 1, 2, None, 3, 4, 5, None]
    assert found.parts == [None, 0, 0, 0, None, 1, 1, 1, None]
    annotated = Sentence("One two.", "Two one.", words=(Word(0, 3, in_pair=True), Word(4, 7)))
    assert coded(builtin, annotated).word_ids == [None, None, 1, None, None, 0, None, None, None]


def test_unknown_tokens_stand_for_their_word(builtin):
    found = coded(builtin, "A 🤖 robot")
    assert found.tokens == ["[CLS]", "a", "[UNK]", "robot", "[SEP]"]
    assert found.special == [True, False, False, False, True]
    assert found.words == ["", "A", "🤖", "robot", ""]


@pytest.mark.parametrize("mask", ["<mask>", "<m>", "<a longer mask>"])
def test_offsets_are_those_of_the_text_whatever_the_mask_is(builtin, mask):
    import copy

    tokenizer = copy.deepcopy(builtin.tokenizer)
    tokenizer.add_special_tokens({"mask_token": mask})
    text = "[MASK] is [MASK], of France."
    found = encode(builtin.anatomy, tokenizer, sentence(text))
    shown = [text[slice(*span)] for span in found.spans if span]
    assert shown == ["[MASK]", "is", "[MASK]", ",", "of", "France", "."]
    assert found.word_ids == [None, *range(7), None]
    assert found.words[1] == found.words[3] == mask


def test_words_cut_off_have_no_tokens(builtin):
    found = coded(builtin, "word " * 700, truncate=True)
    assert len(found.sentence.words) == 700
    assert [len(tokens) for tokens in found.tokens_of_words] == [1] * 510 + [0] * 190


def test_a_tokenizer_without_offsets(builtin):
    from transformers import ByT5Tokenizer, CanineTokenizer

    found = encode(builtin.anatomy, CanineTokenizer(), sentence(("Zoë ate.", "A b")))
    assert [found.sentence.word(place) if place is not None else "" for place in found.word_ids] == [
        "", *["Zoë"] * 3, "", *["ate"] * 3, ".", "", "A", "", "b", "",
    ]  # fmt: skip
    found = encode(builtin.anatomy, ByT5Tokenizer(), sentence("Zoë"))
    assert found.word_ids == [None] * 5 and found.words[:2] == ["Z", "o"]


def test_the_limit_is_said_and_truncation_offered(builtin):
    assert limit(builtin.anatomy, builtin.tokenizer) == 512
    with pytest.raises(BadInput, match=r"702 tokens.*512.*--truncate"):
        coded(builtin, "word " * 700)
    assert len(coded(builtin, "word " * 700, truncate=True).tokens) == 512


def test_roberta_loses_two_positions():
    from tests.families import build
    from whence.models.locate import locate

    class Tokenizer:
        model_max_length = int(1e30)

    assert limit(locate(build("roberta")), Tokenizer()) == 62
    assert limit(locate(build("xlnet")), Tokenizer()) is None
