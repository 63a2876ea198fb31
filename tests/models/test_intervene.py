"""Tokens taken away inside a pass: against the same done by hand in the model's own weights."""

import pytest
import torch

import whence
from tests import tiny
from tests.families import build
from whence.models.block import Batch
from whence.models.capture import arguments_of, borrowed, run, trace, walk
from whence.models.intervene import _silencing, input_gradient, last_states, mean_embedding, replaced

FAMILIES = ("bert", "roberta", "llama", "gpt2", "gemma2")


def batch_of(model, count=2, tokens=6):
    ids = torch.randint(7, 18, (count, tokens), generator=torch.Generator().manual_seed(0))
    return Batch(ids, torch.ones(count, tokens, dtype=torch.bool))


@pytest.fixture(params=FAMILIES)
def model(request):
    return whence.load(
        build(request.param, **({"pad_token_id": 0} if request.param != "gpt2" else {})), tiny.tokenizer()
    )


def test_nothing_is_changed_where_nothing_is_taken_away(model):
    batch = batch_of(model)
    expected = trace(model.anatomy, batch).blocks[-1].output[[0, 1], [5, 3]]
    assert torch.allclose(last_states(model.anatomy, batch, [5, 3]), expected, atol=1e-6)
    none = torch.zeros(batch.ids.shape, dtype=torch.bool)
    assert torch.allclose(last_states(model.anatomy, batch, [5, 3], none, range(1, 99)), expected, atol=1e-6)


def test_a_value_that_nobody_reads_is_a_value_of_zero(model):
    """In the first block: the projection of what the heads give when the value's row is zero."""
    batch = batch_of(model, 1)
    unread = torch.zeros(batch.ids.shape, dtype=torch.bool)
    unread[0, 2] = True
    before = trace(model.anatomy, batch).blocks[0]
    without = before.values.clone()
    without[:, :, 2] = 0
    heads = torch.einsum("bhts,bhsd->bhtd", before.attention, without)
    seen = {}

    def listen(block):
        if block.layer == 1:
            seen["projected"] = block.projected

    walk(model.anatomy, batch, listen, edit=_silencing(unread, [1]))
    bias = before.parts.projection.bias
    expected = torch.einsum("bhtd,hdm->btm", heads, before.parts.projection.weight) + (0 if bias is None else bias)
    assert torch.allclose(seen["projected"], expected, atol=1e-5)
    changed = last_states(model.anatomy, batch, [5], unread, [1])
    assert not torch.allclose(changed, last_states(model.anatomy, batch, [5]), atol=1e-6)


def test_the_mean_embedding_stands_in_for_tokens(model):
    """As if the tokens were another one, whose row of the table is the mean."""
    batch, table = batch_of(model), model.anatomy.stack.get_input_embeddings()
    mean = mean_embedding(model.anatomy)
    assert torch.allclose(mean, table(torch.arange(table.num_embeddings)).mean(dim=0), atol=1e-6)
    places = torch.zeros(batch.ids.shape, dtype=torch.bool)
    places[0, 1] = places[1, 4] = True
    with replaced(model.anatomy, places, mean):
        found = last_states(model.anatomy, batch, [5, 5])
    scale = float((table(torch.tensor([9])) / table.weight[9]).detach().mean())  # Gemma multiplies its embeddings
    spare = batch.ids.clone()
    spare[places] = 18
    kept = table.weight[18].clone()
    with torch.no_grad():
        table.weight[18] = mean / scale
        expected = last_states(model.anatomy, Batch(spare, batch.mask), [5, 5])
        table.weight[18] = kept
    assert torch.allclose(found, expected, atol=1e-5)
    assert not table._forward_hooks


def test_the_gradient_by_the_embeddings_is_that_of_finite_differences():
    model = whence.load(build("bert", pad_token_id=0).double(), tiny.tokenizer())
    batch = batch_of(model, 1)

    def read(output):
        return output[0, -1].log_softmax(dim=-1)[9]

    states, gradient = input_gradient(model.anatomy, batch, read)
    assert torch.allclose(states, trace(model.anatomy, batch).embedding[0])
    direction = torch.randn(states.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def at(step):
        block, small = model.anatomy.blocks[0], 1e-5 * step * direction[None]
        handle = block.register_forward_pre_hook(lambda _, args: (args[0] + small, *args[1:]))
        try:
            with borrowed(model.anatomy.model), torch.no_grad():
                return read(run(model.anatomy.model, batch, **arguments_of(model.anatomy)))
        finally:
            handle.remove()

    slope = (at(1) - at(-1)) / 2e-5
    assert float((gradient * direction).sum()) == pytest.approx(float(slope), rel=1e-5)
