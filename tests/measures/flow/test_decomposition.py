"""States as sums of their sources' vectors."""

import pytest
import torch

import whence
from tests import tiny
from tests.families import DISTINCT, NO_VALUE_MAP, UNREAD_EXPERTS, batch, build
from whence.errors import Unsupported, VerificationFailed
from whence.linear import secant
from whence.measures.flow.decomposition import decomposition
from whence.models.capture import trace
from whence.models.locate import locate


def by_hand(model, states, weights):
    """One source after the other through the blocks of a BERT, with the module's own layers but no biases."""
    vectors = torch.zeros(len(states), *states.shape, dtype=states.dtype)
    vectors[range(len(states)), range(len(states))] = states
    bias, total, lengths = torch.zeros_like(states), states, []
    for layer, attention in zip(model.bert.encoder.layer, weights, strict=True):
        parts, outputs = [*vectors, bias], []
        own, dense = layer.attention, layer.attention.output
        sums = [torch.zeros_like(states) for _ in parts]
        for each, part in enumerate(parts):
            values = part @ own.self.value.weight.T + (own.self.value.bias if each == len(states) else 0)
            heads = values.unflatten(-1, (len(attention), -1))
            mixed = torch.stack([attention[head] @ heads[:, head] for head in range(len(attention))], dim=1).flatten(1)
            moved = mixed @ dense.dense.weight.T + (dense.dense.bias if each == len(states) else 0)
            sums[each] = part + moved
        sums = scaled(dense.LayerNorm, sums)
        before = [part @ layer.intermediate.dense.weight.T for part in sums]
        before[-1] = before[-1] + layer.intermediate.dense.bias
        slope = torch.nn.functional.gelu(sum(before)) / sum(before)
        for part, hidden in zip(sums, before, strict=True):
            outputs.append(part + (hidden * slope) @ layer.output.dense.weight.T)
        outputs[-1] = outputs[-1] + layer.output.dense.bias
        outputs = scaled(layer.output.LayerNorm, outputs)
        vectors, bias, total = torch.stack(outputs[:-1]), outputs[-1], sum(outputs)
        lengths.append(vectors.norm(dim=-1).T)
    return torch.stack(lengths), total


def scaled(norm, parts):
    """A LayerNorm of the sum, shared out; its shift goes to the last."""
    total = sum(parts)
    deviation = (total.var(dim=-1, keepdim=True, unbiased=False) + norm.eps).sqrt()
    shared = [(part - part.mean(dim=-1, keepdim=True)) / deviation * norm.weight for part in parts]
    return [*shared[:-1], shared[-1] + norm.bias]


def test_as_by_hand():
    model = build("bert").double()
    text = batch([6])
    with torch.no_grad():
        seen = trace(locate(model), text)
        expected, total = by_hand(model, seen.embedding[0], [block.attention[0] for block in seen.blocks])
    assert torch.allclose(total, model.bert(text.ids).last_hidden_state[0])
    assert torch.allclose(decomposition(locate(model), text).length, expected)


@pytest.mark.parametrize("family", [name for name in DISTINCT if name not in NO_VALUE_MAP | UNREAD_EXPERTS])
def test_parts_along_the_state_add_up_to_one(family):
    found = decomposition(locate(build(family)), batch([9]))
    assert torch.allclose(found.signed.sum(dim=-1) + found.bias_signed, torch.ones_like(found.bias), atol=1e-5)
    assert torch.allclose(found.share.sum(dim=-1), torch.ones_like(found.bias))


def test_the_same_however_many_go_together_and_of_some_layers():
    anatomy, text = locate(build("llama").double()), batch([9])
    whole = decomposition(anatomy, text)
    assert not whole.length.triu(diagonal=1).any()
    for found in (decomposition(anatomy, text, memory=1), decomposition(anatomy, text, layers=[3, 1])):
        layers = [2, 0] if len(found.length) == 2 else slice(None)
        assert torch.allclose(found.length, whole.length[layers]) and torch.allclose(found.bias, whole.bias[layers])


def test_vectors_that_do_not_add_up_are_refused(monkeypatch):
    real = secant.Branches.push
    monkeypatch.setattr(secant.Branches, "push", lambda *given, **named: real(*given, **named) * 1.01)
    with pytest.raises(VerificationFailed, match="do not add up to the states"):
        decomposition(locate(build("bert")), batch([6]))


def test_on_real_weights(builtin, smollm2):
    for model in (builtin, smollm2):
        found = whence.measure(model, "Paris is the capital of France.", "decomposition", targets=[-1])
        total = found.decomposition_signed.sum("source") + found.decomposition_bias_signed
        assert float(abs(total - 1).max()) < 1e-4 and found.sizes["target"] == 1


def test_an_opaque_feed_forward_is_refused():
    model = whence.load(build("gpt_oss"), tiny.tokenizer())
    with pytest.raises(Unsupported, match=r"'decomposition' needs secant.*'gpt_oss'"):
        whence.measure(model, "ada bo cy", "decomposition")


def test_progress_goes_forward():
    seen = []
    decomposition(locate(build("bert")), batch([6]), memory=1, progress=lambda *step: seen.append(step))
    assert seen == [(done, 6) for done in range(1, 7)]
