"""Sources summed by word, line, sentence, paragraph, turn or characters: each source once."""

import numpy as np
import pytest

import whence
from tests import tiny
from tests.families import build

TEXT = "ada bo. cy dee!\ned fay.\n\ngus hal"


@pytest.fixture(scope="module")
def model():
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = "{% for m in messages %}[CLS] {{ m.content | trim }} [SEP]{% endfor %} lou"
    return whence.load(build("llama"), tokenizer)


@pytest.mark.parametrize(
    ("spans", "names"),
    [
        ("word", ["[CLS]", "ada", "bo", ".", "cy", "dee", "!", "ed", "fay", ".", "gus", "hal", "[SEP]"]),
        ("line", ["[CLS]", "ada bo. cy dee!", "ed fay.", "gus hal", "[SEP]"]),
        ("sentence", ["[CLS]", "ada bo.", "cy dee!", "ed fay.", "gus hal", "[SEP]"]),
        ("paragraph", ["[CLS]", "ada bo. cy dee!\ned fay.", "gus hal", "[SEP]"]),
        ([(0, 3), (8, 14)], ["[CLS]", "ada", "the rest", "cy dee", "[SEP]"]),
    ],
)
def test_spans_add_up_as_their_tokens_do(model, spans, names):
    ds = whence.why(model, TEXT, spans=spans, position=-1)
    assert ds.span_text.values.tolist() == names
    own = ds.source_span.values
    for span in range(len(names)):
        parts = ds.isel(source=own == span)
        assert ds.span_share.isel(span=span).values == pytest.approx(parts.share.sum("source").values, abs=1e-6)
        length = np.sqrt((parts.dependence**2).sum("source"))
        assert ds.span_dependence.isel(span=span).values == pytest.approx(length.values, rel=1e-5, abs=1e-7)
    total = ds.span_share.sum("span") + ds.bias
    assert total.values == pytest.approx(float(ds.logit[0]), rel=1e-4, abs=1e-4)


def test_turns_of_a_chat_the_template_and_the_answer(model):
    chat = [{"role": "user", "content": " ada bo "}, {"role": "assistant", "content": "cy"}]
    ds = whence.why(model, chat, answer=" dee", spans="turn")
    assert ds.source_token.values.tolist() == ["[CLS]", "ada", "bo", "[SEP]", "[CLS]", "cy", "[SEP]", "lou", "dee"]
    assert ds.span_text.values.tolist() == ["template", "user", "assistant", "answer"]
    assert ds.source_span.values.tolist() == [0, 1, 1, 0, 0, 2, 0, 0, 3]
    assert ds.attrs["text"] == "[CLS] ada bo [SEP][CLS] cy [SEP] lou dee"
    assert ds.predicted.values.tolist() == [7]


def test_a_pair_has_the_spans_of_both_texts(builtin):
    ds = whence.why(builtin, ("One. Two.", "Three [MASK]."), spans="sentence")
    assert ds.span_text.values.tolist() == ["[CLS]", "One.", "Two.", "[SEP]", "Three [MASK].", "[SEP]"]
