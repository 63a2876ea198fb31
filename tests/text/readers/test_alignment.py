"""The words of a treebank and of many scripts, recovered from the tokens of six tokenizers."""

import functools

import pytest

import whence
from tests.trained import KINDS
from whence.models.encode import encode
from whence.text.sentence import Sentence

SIX = (*KINDS, "builtin", pytest.param("smollm2", marks=pytest.mark.slow))
SCRIPTS = [
    "我喜欢猫。",
    "สวัสดีครับ ฉันรักแมว",
    "cafe\u0301 nai\u0308ve e\u0301\u0323\u0302x",
    "a 👩‍👩‍👧 b🤖c 🇩🇪!",
    "مرحبا بالعالم",
    "ﬁne ½ Ⅻ Ａｂｃ　ｄ",
    "नमस्ते दुनिया",
    "한국어 텍스트",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 Zoë",
]


@pytest.fixture(scope="module")
def coded(request, builtin, sample):
    """Name -> a function sentence -> Encoded; the model behind trained tokenizers is only asked for its limit."""

    @functools.cache
    def prepared(name: str):
        model = request.getfixturevalue(name) if name in ("builtin", "smollm2") else builtin
        texts = (sample / "articles.txt").read_text().splitlines() + SCRIPTS
        tokenizer = KINDS[name](texts) if name in KINDS else model.tokenizer
        return lambda sentence: encode(model.anatomy, tokenizer, sentence)

    return prepared


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize(("corpus", "every"), [("treebank", 1), ("gum", 15)])
def test_every_word_is_recovered_from_its_tokens(request, name, coded, corpus, every):
    encode, sentences = coded(name), request.getfixturevalue(corpus)[::every]
    aligned = [encode(sentence) for sentence in sentences]
    for sentence, found in zip(sentences, aligned, strict=True):
        assert found.sentence is sentence
        for word, tokens in zip(sentence.words, found.tokens_of_words, strict=True):
            characters = {place for token in tokens for place in range(*found.spans[token])}
            assert characters.issuperset(range(word.start, word.end)), (sentence.id, word)
        for token, special in enumerate(found.special):
            assert special == (found.parts[token] is None) == (found.spans[token] is None)
            assert not special or not found.words_over[token]
    assert sentences and all(len(found.tokens_of_words) == len(found.sentence.words) for found in aligned)
    _check_pieces_of_mentions(aligned)


def _check_pieces_of_mentions(aligned) -> None:
    """A mention's tokens have its first and last letter."""
    for found in aligned:
        for mention in found.sentence.mentions:
            tokens = sorted({token for place in mention.words for token in found.tokens_of_words[place]})
            spans = [found.spans[token] for token in tokens]
            assert spans[0][0] <= found.sentence.words[mention.words[0]].start
            assert max(end for _, end in spans) >= found.sentence.words[mention.words[-1]].end


@pytest.mark.parametrize("name", SIX)
def test_scripts(name, coded):
    encode = coded(name)
    for text in SCRIPTS:
        found = encode(Sentence(text))
        assert all(found.tokens_of_words), (text, found.tokens)
        for token, place in enumerate(found.word_ids):
            if place is not None:
                word, (start, end) = found.sentence.words[place], found.spans[token]
                shown = text[start:end]
                assert word.start <= start + len(shown) - len(shown.lstrip()) < word.end
                assert found.words[token] == found.sentence.word(place)


def test_a_token_over_two_words_belongs_to_both(coded, sample):
    encode = coded("Unigram")
    aligned = [encode(sentence) for sentence in whence.read(sample / "articles.txt")]
    wide = [(found, token) for found in aligned for token, over in enumerate(found.words_over) if len(over) > 1]
    assert len(wide) > 20
    for found, token in wide:
        over = found.words_over[token]
        letters = set(range(*found.spans[token]))
        assert all(
            letters & set(range(word.start, word.end)) for word in (found.sentence.words[place] for place in over)
        )
        assert all(token in found.tokens_of_words[place] for place in over)
        assert found.word_ids[token] == min(over)


def test_parts_of_a_letter_belong_to_its_word(coded):
    found = coded("byte-level BPE")(Sentence("x 🦀y"))
    parts = [token for token, span in enumerate(found.spans) if span == (2, 3) or span == (1, 3)]
    assert len(parts) > 1 and {found.words[token] for token in parts} == {"🦀"}
