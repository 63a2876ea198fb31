"""Text to tokens and back to words, for several kinds of tokenizer."""

import pytest

from whence.align import words
from whence.errors import BadInput
from whence.models.encode import encode, limit
from whence.text import sentence

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
