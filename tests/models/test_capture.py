"""One pass: the parts sum to the whole, nothing changes, everything is put back."""

import copy
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from einops import einsum

from tests.families import DISTINCT, batch, build
from whence.models.capture import trace, visit_blocks, walk
from whence.models.locate import locate

LENGTHS = [9, 5, 7]
KINDS = ("bert", "gpt2", "llama", "xlnet", "mixtral")  # for what does not depend on the family


def assert_close(found, expected, limit=1e-5):
    error = ((found - expected).abs().max() / expected.abs().max()).item()
    assert error <= limit, f"{error:.2g} apart, {limit:.0e} allowed"


@pytest.fixture(params=DISTINCT)
def anatomy(request):
    return locate(build(request.param))


@pytest.fixture(params=KINDS, scope="module")
def kind(request):
    return locate(build(request.param))


def test_parts_sum_to_the_whole(anatomy):
    """From layer 0 to the logits of the model left alone, each block reading what the one before wrote.

    Independent of Block's own arithmetic: the norms and feed-forward are called as the model's modules.
    """
    tokens = batch([9])
    seen = trace(anatomy, tokens, logits=True)
    inputs = [seen.embedding, *(block.output for block in seen.blocks)]
    assert len(seen.blocks) == anatomy.layers
    for block, before in zip(seen.blocks, inputs[:-1], strict=True):
        assert torch.equal(block.input, before)
        projection = block.parts.projection
        total = torch.zeros_like(block.output)
        for head in range(anatomy.heads):
            values = block.values[:, head]
            for source in range(9):
                weight = block.attention[:, head, :, source, None]
                total += weight * (values[:, source, None] @ projection.weight[head])
        assert_close(total if projection.bias is None else total + projection.bias, block.projected)
        assert_close(block.rebuilt, block.output)
    assert_close(anatomy.finish(seen.blocks[-1].output), seen.output)
    assert_close(anatomy.head(seen.output), seen.logits)
    with torch.no_grad():
        plain = anatomy.model(input_ids=tokens.ids, attention_mask=tokens.mask.long())[0]
    assert_close(seen.logits, plain)


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_and_batching_change_nothing(kind, side):
    together = trace(kind, batch(LENGTHS, side))
    mask = together.batch.mask
    for row, length in enumerate(LENGTHS):
        ids = together.batch.ids[row][mask[row]][None]
        alone = trace(kind, type(together.batch)(ids, torch.ones(1, length, dtype=torch.bool)))
        assert_close(together.output[row][mask[row]], alone.output[0])
        for padded, single in zip(together.blocks, alone.blocks, strict=True):
            weights = padded.attention[row][:, mask[row]][..., mask[row]]
            assert_close(weights, single.attention[0])
            assert_close(padded.output[row][mask[row]], single.output[0])


def test_the_model_comes_back_as_it_was(kind):
    model = copy.deepcopy(kind.model).train()
    next(iter(model.children())).eval()
    before = fingerprint(model)
    trace(locate(model), batch([5]))
    assert fingerprint(model) == before


def test_the_model_comes_back_after_an_exception(kind):
    before = fingerprint(kind.model)

    def fail(block):
        raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError, match="in the middle"):
        walk(kind, batch([5]), fail)
    assert fingerprint(kind.model) == before
    assert len(trace(kind, batch([5])).blocks) == kind.layers


def test_a_pass_ends_past_the_last_attention_asked_for(kind):
    """What is seen until then is what a whole pass sees, bit for bit; what comes after is not computed."""
    tokens, before, last = batch([9]), fingerprint(kind.model), kind.layers - 1
    whole, seen, begun = trace(kind, tokens), [], []
    hooks = [block.register_forward_pre_hook(lambda module, _: begun.append(module)) for block in set(kind.blocks)]
    visit_blocks(kind, tokens, seen.append, last)
    for hook in hooks:
        hook.remove()
    assert len(seen) == len(begun) == last
    assert seen[-1].output.isnan().all()
    for found, expected in zip(seen, whole.blocks, strict=False):
        for name in ("input", "attention", "grouped_values", "projected"):
            assert torch.equal(getattr(found, name), getattr(expected, name))
    assert fingerprint(kind.model) == before


def test_the_last_feed_forward_is_not_computed():
    anatomy, called = locate(build("bert")), []
    for block in anatomy.blocks:
        block.intermediate.register_forward_hook(lambda module, *_: called.append(module))
    visit_blocks(anatomy, batch([9]), lambda block: None, anatomy.layers)
    assert len(called) == anatomy.layers - 1


def fingerprint(model):
    """Everything a pass could have left behind: flags, hooks, attention implementation, dtype, weights."""
    hooks = [
        (name, len(part._forward_hooks), len(part._forward_pre_hooks), len(part._backward_hooks))
        for name, part in model.named_modules()
    ]
    configs = [part.config for part in model.modules() if hasattr(part, "config")]
    implementations = [(config._attn_implementation, config._experts_implementation) for config in configs]
    weights = sum(parameter.double().abs().sum().item() for parameter in model.parameters())
    gradients = [parameter.requires_grad for parameter in model.parameters()]
    return [part.training for part in model.modules()], hooks, implementations, model.dtype, weights, gradients


@pytest.mark.parametrize("name", ["bert", "llama", "xlnet", "deberta-v2"])
def test_threads_share_a_model(name):
    """While one pass is watched a second waits, an ordinary one goes by unheard, and the model comes back as it was."""
    model = build(name).train()
    anatomy, given = locate(model), batch([5])
    before, alone = fingerprint(model), trace(anatomy, given)
    inside, go = threading.Event(), threading.Event()

    def linger(block):
        inside.set()
        assert go.wait(30)
        return block

    with ThreadPoolExecutor(2) as pool, torch.no_grad():
        first = pool.submit(walk, anatomy, given, linger)
        assert inside.wait(30)
        second = pool.submit(trace, anatomy, given)
        plain = anatomy.stack(input_ids=given.ids)[0]
        go.set()
        found = [first.result(), second.result()]
    assert fingerprint(model) == before
    assert_close(plain, alone.output)
    for seen in found:
        assert len(seen.blocks) == anatomy.layers
        assert_close(seen.blocks[-1].attention, alone.blocks[-1].attention)


def test_autocast_is_left_outside(kind):
    alone = trace(kind, batch([9])).blocks[-1].attention
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(trace(kind, batch([9])).blocks[-1].attention, alone)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["bert", "llama", "gpt2"])
def test_any_attention_implementation_of_the_users(name, implementation):
    model = build(name)
    model.set_attn_implementation(implementation)
    seen = trace(locate(model), batch([9]))
    assert model.config._attn_implementation == implementation
    assert_close(seen.blocks[0].attention.sum(dim=-1), torch.ones(1, 4, 9))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_any_gradient_mode(mode):
    anatomy = locate(build("llama"))
    with mode():
        assert not trace(anatomy, batch([5])).output.requires_grad


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 6e-2), (torch.float16, 1e-2), (torch.float64, 1e-5)])
def test_any_dtype(kind, dtype, limit):
    anatomy = locate(copy.deepcopy(kind.model).to(dtype))
    blocks = trace(anatomy, batch([9])).blocks
    assert len(blocks) == anatomy.layers
    for block in blocks:
        assert block.output.dtype == dtype
        assert_close(block.rebuilt, block.output, limit)


def test_one_layers_attention_is_alive_at_a_time():
    anatomy = locate(build("bert"))
    seen = []

    def visit(block):
        assert all(reference() is None for reference in seen), "an earlier layer's attention is still in memory"
        seen.append(weakref.ref(block.attention))

    walk(anatomy, batch([9]), visit)
    assert len(seen) == 3


@pytest.mark.parametrize("name", ["bert", "llama", "xlnet", "opt-350m"])
def test_edited_attention_is_what_the_model_goes_on_with(name):
    anatomy = locate(build(name))
    uniform = torch.full((1, 4, 9, 9), 1 / 9)
    edited = trace(anatomy, batch([9]), logits=False)
    changed = walk(anatomy, batch([9]), lambda block: block, edit=lambda layer, _: uniform if layer == 2 else None)
    assert torch.equal(changed.blocks[0].output, edited.blocks[0].output)
    assert torch.equal(changed.blocks[1].attention, uniform)
    block = changed.blocks[1]
    heads = einsum(uniform, block.values, "b h t s, b h s d -> b h t d")
    total = einsum(heads, block.parts.projection.weight, "b h t d, h d m -> b t m")
    bias = block.parts.projection.bias
    assert_close(block.projected, total if bias is None else total + bias)
    assert_close(block.rebuilt, block.output)
    assert (changed.output - edited.output).abs().max() > 1e-3


def test_an_edit_that_changes_nothing_changes_nothing():
    anatomy = locate(build("xlnet"))
    plain = trace(anatomy, batch([9]))
    same = walk(anatomy, batch([9]), lambda block: block, edit=lambda layer, weights: weights)
    assert_close(same.output, plain.output)
