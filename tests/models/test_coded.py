"""Chats by the tokenizer's template, ids as they are, and special tokens never doubled."""

import numpy as np
import pytest
import torch

import whence
from tests import tiny
from tests.families import build
from whence.errors import BadInput, Unsupported
from whence.models.coded import answered, coded, followed
from whence.text.sentence import sentence

CHAT = [
    {"role": "system", "content": "You are brief."},
    {"role": "user", "content": " What is the capital of France? "},
]


def test_a_chat_is_what_the_template_makes_of_it(smollm2):
    tokenizer = smollm2.tokenizer
    expected = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=True)["input_ids"]
    made = coded(tokenizer, sentence(CHAT))
    assert made.ids == list(expected) and made.ids.count(tokenizer.bos_token_id) == 3  # two messages and the answer's
    contents = [made.sentence.text[slice(*turn.span)] for turn in made.sentence.turns]
    assert contents == ["You are brief.", "What is the capital of France?"] and made.last == len(made.ids) - 1


@pytest.mark.parametrize("kind", [list, torch.tensor, np.array, lambda ids: torch.tensor([ids])])
def test_ids_are_taken_as_they_are(builtin, kind):
    text = "Paris is the capital of [MASK]."
    ids = builtin.tokenizer(text)["input_ids"]
    ds, same = whence.measure(builtin, kind(ids)), whence.measure(builtin, text)
    assert ds.source_token_id.values.tolist() == ids
    assert (ds.attention.values == same.attention.values).all()
    assert ds.source_word.values.tolist()[1:3] == ["paris", "is"]
    bare = whence.measure(builtin, kind(ids[1:-1]))
    assert bare.source_token.values.tolist()[0] == "paris" and bare.sizes["source"] == len(ids) - 2


def test_ids_that_the_tokenizer_would_not_give_have_their_words_too(smollm2):
    pieces = [smollm2.tokenizer.convert_tokens_to_ids(piece) for piece in ("ĠPa", "ris", "Ġis", "Ġna", "Ã¯", "ve")]
    ds = whence.measure(smollm2, pieces, layers=[1])
    assert ds.source_token_id.values.tolist() == pieces
    assert ds.source_word.values.tolist() == ["Paris", "Paris", "is", "naïve", "naïve", "naïve"]


def test_a_generated_answer_keeps_its_text_where_the_tokenizer_would_write_it_otherwise(smollm2):
    """Two line breaks are one token of the vocabulary; a model may write them one by one."""
    tokenizer = smollm2.tokenizer
    prompt = coded(tokenizer, sentence("The capital of France is"))
    ids = [token for part in (" Paris.", "\n", "\n", " 🦊", "!") for token in tokenizer(part)["input_ids"]]
    assert tokenizer(" Paris.\n\n 🦊!")["input_ids"] != ids
    whole = followed(tokenizer, prompt, ids)
    assert whole.sentence.text == "The capital of France is Paris.\n\n 🦊!"
    written = [whole.sentence.text[slice(*span)] for span in whole.spans[len(prompt.ids) :]]
    assert written[:4] == [" Paris", ".", "\n", "\n"] and written[-1] == "!"
    assert {part.strip() for part in written[4:-1]} == {"🦊"}  # each of its bytes is the character's
    ds = whence.why(smollm2, "The capital of France is", answer=ids, measures="share", spans="word")
    assert ds.attrs["answer"] == " Paris.\n\n 🦊!" and "Paris" in ds.span_text.values


def test_tokens_of_any_ids_cover_their_text(smollm2):
    """More than are decoded together, of tokens that stand for whole characters."""
    tokenizer = smollm2.tokenizer
    numbers = np.random.default_rng(0).integers(1000, 40_000, size=400).tolist()
    ids = [token for token in numbers if "\ufffd" not in tokenizer.decode([token])]
    made = coded(tokenizer, sentence(ids))
    assert "".join(made.sentence.text[slice(*span)] for span in made.spans) == tokenizer.decode(ids)
    assert [made.sentence.text[slice(*span)] for span in made.spans] == [tokenizer.decode([token]) for token in ids]


def test_an_answer_is_coded_as_it_would_stand_behind_its_prompt(smollm2):
    tokenizer = smollm2.tokenizer
    prompt = coded(tokenizer, sentence("The capital of France is"))
    whole = answered(tokenizer, prompt, " Paris.")
    assert whole.ids == tokenizer("The capital of France is Paris.")["input_ids"]
    assert [whole.sentence.text[slice(*span)].strip() for span in whole.spans[-2:]] == ["Paris", "."]
    apart = answered(tokenizer, coded(tokenizer, sentence("The cap")), "ital")  # as one text it would be one token
    assert apart.ids[: len(apart.ids) - 1] == tokenizer("The cap")["input_ids"] and apart.sentence.text == "The capital"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ([3, -1], "count from 0, and -1"),
        ([10**9], "the ids have 1,000,000,000"),
        (["a", "b"], "a chat as a list of messages"),
        (torch.ones(2, 3, dtype=torch.long), "one row of whole numbers"),
        (np.array([1.5]), "one row of whole numbers"),
        ([{"role": "user"}], "Message 0 of the chat"),
        ([{"role": "user", "content": "a\udc00"}], "half of a surrogate pair"),
    ],
)
def test_what_is_neither_text_nor_chat_nor_ids(builtin, text, said):
    with pytest.raises(BadInput, match=said):
        whence.measure(builtin, text)


def test_a_chat_needs_a_template_that_takes_it(builtin):
    with pytest.raises(Unsupported, match="has no chat template"):
        whence.measure(builtin, CHAT)
    tokenizer = tiny.tokenizer()
    model = whence.load(build("llama"), tokenizer)
    tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    with pytest.raises(BadInput, match="refuses this chat: roles must alternate"):
        whence.measure(model, CHAT)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"
    with pytest.raises(Unsupported, match="rewrites message 0"):
        whence.measure(model, CHAT)


def test_a_template_that_ends_in_a_special_token_is_answered_behind_it():
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %} [SEP]"
    ds = whence.why(whence.load(build("llama"), tokenizer), [{"role": "user", "content": "ada bo"}])
    assert ds.source_token.values.tolist() == ["ada", "bo", "[SEP]"] and ds.predicted.values.tolist() == [2]
