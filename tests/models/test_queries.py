"""Attention in chunks of queries: rows, margins and states of every family are those of the whole, padded or not."""

import pytest
import torch

from tests import tiny
from tests.families import DISTINCT, OUTSIDE, batch, build
from whence.models import queries
from whence.models.capture import trace
from whence.models.locate import locate
from whence.models.verify import LONG

FIVE = 5  # no divisor of the texts' lengths


@pytest.fixture
def doubled(monkeypatch):
    """Model files that take the softmax in float32 take it in float64: what is left is not their rounding."""
    softmax = torch.nn.functional.softmax
    monkeypatch.setattr(torch.nn.functional, "softmax", lambda scores, dim=None, **_: softmax(scores, dim=dim))


@pytest.mark.parametrize("name", [name for name in DISTINCT if name not in OUTSIDE and name != "xlnet"])
def test_chunks_give_the_rows_of_the_whole(name, doubled):
    anatomy = locate(build(name).double())
    for side in ("left", "right"):
        tokens = batch([19, 12, 16], side)
        whole, chunked = trace(anatomy, tokens), trace(anatomy, tokens, queries=FIVE)
        real = tokens.mask[:, None, :, None] & tokens.mask[:, None, None, :]
        for block, chunk in zip(whole.blocks, chunked.blocks, strict=True):
            if not block.attends:
                continue
            assert chunk.rows is not None and chunk.attention.shape[-1] == 0
            _close(chunk.whole.attention * real, block.attention * real)
            margins = (
                block.own_weights,
                block.attention[..., 0] * tokens.mask[:, :1, None],
                block.attention.sum(dim=-1),
            )
            found = (chunk.margins.own, chunk.margins.first * tokens.mask[:, :1, None], chunk.margins.total)
            for part, expected in zip(found, margins, strict=True):
                _close(part * tokens.mask[:, None], expected * tokens.mask[:, None])
        _close(chunked.output[tokens.mask], whole.output[tokens.mask])


def _close(found, expected):
    assert bool(torch.isclose(found, expected, rtol=1e-6, atol=1e-6).all())


@pytest.mark.parametrize("name", ["llama", "mistral", "modernbert", "gpt_oss"])
def test_a_block_seen_from_some_targets_has_their_rows(name, doubled):
    """Whether its attention is in memory or is computed again; scattered targets and those of several chunks."""
    anatomy, tokens = locate(build(name).double()), batch([19, 14], "left")
    targets = torch.tensor([7, 8, 11, 18])
    for block, chunk in zip(trace(anatomy, tokens).blocks, trace(anatomy, tokens, queries=FIVE).blocks, strict=True):
        for some in (block.at(targets), chunk.at(targets)):
            _close(some.attention, block.attention[:, :, targets])
            _close(some.own_weights, block.attention[:, :, targets, targets])
            _close(some.own_values, block.values[:, :, targets])
            _close(some.middle, block.middle[:, targets])
            assert some.allowed is None or torch.equal(some.allowed, block.allowed[:, :, targets])


def test_the_future_and_what_is_past_the_window_are_not_computed(monkeypatch):
    seen = []
    attend = queries.Attending._of
    monkeypatch.setattr(
        queries.Attending, "_of", lambda self, targets, sources: seen.append(sources) or attend(self, targets, sources)
    )
    trace(locate(build("mistral")), batch([19]), queries=FIVE)  # whose window is 5
    assert [(sources.start, sources.stop) for sources in seen[:4]] == [(11, 19), (6, 15), (1, 10), (0, 5)]


def test_the_largest_chunks_go_first(monkeypatch):
    """In the memory that a chunk leaves the next has room; growing ones took 5.9 GB of 16,384 tokens, shrinking 0.9."""
    sizes = []
    made = queries.Attending._of
    monkeypatch.setattr(
        queries.Attending,
        "_of",
        lambda self, targets, sources: sizes.append(sources.stop) or made(self, targets, sources),
    )
    anatomy = locate(build("llama"))
    sizes.clear()
    trace(anatomy, batch([19], "right"), queries=FIVE)
    assert sizes == [19, 15, 10, 5] * anatomy.layers


def test_a_mask_that_is_changed_on_its_way_is_not_a_number():
    """The stand-in for a mask that is made by rows must not be taken for one that lets everything through."""
    anatomy = locate(build("llama"))
    block = anatomy.blocks[1]
    hook = block.register_forward_pre_hook(
        lambda _, args, kwargs: (args, kwargs | {"attention_mask": kwargs["attention_mask"] + 0}), with_kwargs=True
    )
    assert trace(anatomy, batch([9])).output.isfinite().all()
    assert trace(anatomy, batch([9]), queries=4).output.isnan().all()
    hook.remove()


@pytest.mark.parametrize("name", ["bloom", "deberta", "xlnet"])
def test_attention_outside_the_interface_is_computed_whole(name):
    model = tiny.model(name)
    assert LONG not in model.gives and model.anatomy.queries(1, 10**6) is None
    assert LONG in tiny.model("llama").gives


def test_a_family_whose_attention_is_no_matter_of_rows_is_computed_whole(monkeypatch):
    """Loading finds out, and goes on."""
    attend = queries.Attending._of

    def counted(self, targets, sources):
        output, weights = attend(self, targets, sources)
        return output * len(targets), weights

    monkeypatch.setattr(queries.Attending, "_of", counted)
    model = tiny.model("gpt2")
    assert LONG not in model.gives and "attention" in model.gives
    assert not model.anatomy.chunks


@pytest.mark.parametrize(("tokens", "expected"), [(512, None), (4096, 2**23 // (9 * 4096)), (10**7, 1)])
def test_short_texts_are_computed_whole(tokens, expected):
    assert queries.at_once(1, 9, tokens) == expected
