"""Derivatives are those of the model's own code from end to end, whatever paths lead beside the residual stream."""

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModel

import whence
from tests import tiny
from tests.families import GROUPED, batch, build, scatter
from whence.errors import Unsupported
from whence.measures.flow.contribution import jacobian, jacobian_local
from whence.models import linearise
from whence.models.end_to_end import CLOSE, missed
from whence.models.locate import locate
from whence.models.verify import capabilities, verify

SMALL = GROUPED | {"head_dim": 16, "global_head_dim": 16, "pad_token_id": 0, "num_hidden_layers": 4}
SMALL |= {"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 3}
GEMMA = SMALL | {"vocab_size_per_layer_input": 97, "hidden_size_per_layer_input": 0, "num_kv_shared_layers": 0}
STATE = GROUPED | {"num_key_value_heads": 4, "mamba_d_state": 8, "pad_token_id": 0, "num_hidden_layers": 4}
ZAYA = {"num_hidden_layers": 3, "num_experts": 4, "moe_intermediate_size": 48, "layer_types": ["hybrid"] * 3}
BESIDE = {
    "inputs of every layer": ("gemma4_text", GEMMA | {"hidden_size_per_layer_input": 16}),
    "shared keys and values": ("gemma4_text", GEMMA | {"num_kv_shared_layers": 2}),
    "both": ("gemma4_text", GEMMA | {"hidden_size_per_layer_input": 16, "num_kv_shared_layers": 2}),
    "EmbeddingGemma 2": ("embedding_gemma2_text", SMALL | {"hidden_size_per_layer_input": 16, "embedding_dim": 24}),
    "NeoMME": ("neomme", SMALL | {"embedding_rank": 24}),
    "Zamba": ("zamba", STATE | {"layers_block_type": ["mamba", "hybrid"] * 2, "n_mamba_heads": 2}),
    "Zamba 2": ("zamba2", STATE | {"layers_block_type": ["mamba", "hybrid"] * 2, "n_mamba_heads": 8, "chunk_size": 4}),
    "Zaya": ("zaya", GROUPED | {"head_dim": 16, "pad_token_id": 0} | ZAYA),
}


PLAIN = {"none": ("gemma4_text", GEMMA)}  # a family that the table does not have, without such paths


def _built(path):
    torch.manual_seed(0)
    kind, settings = (BESIDE | PLAIN)[path]
    return scatter(AutoModel.from_config(AutoConfig.for_model(kind, **settings))).eval()


@pytest.fixture(scope="module", params=BESIDE)
def anatomy(request):
    return locate(_built(request.param))


def _autograd(anatomy, given):
    """d h^l_i / d h^0_j of the last two layers, by reverse mode alone: layer, target, its width, source, its width.

    Layer 0 is what the first module gives that is equal to what the first block reads, or else that itself.
    """
    stack, outputs, seen = anatomy.stack, [], []
    before = [part for part in stack.modules() if not any(part in block.modules() for block in anatomy.blocks)]
    hooks = [part.register_forward_hook(lambda part, _, output: seen.append((part, output))) for part in before]
    hooks.append(anatomy.blocks[0].register_forward_pre_hook(lambda _, args: seen.append((None, args[0]))))
    with torch.no_grad():
        stack(input_ids=given.ids, use_cache=False)
    for hook in hooks:
        hook.remove()
    start = next(output for part, output in seen if part is None)
    same = [part for part, output in seen if isinstance(output, torch.Tensor) and torch.equal(output, start)]

    def layers(states):
        outputs.clear()
        hooks = [block.register_forward_hook(lambda *given: outputs.append(given[-1])) for block in anatomy.blocks]
        if same[0] is not None:
            hooks.append(same[0].register_forward_hook(lambda *_: states))
        else:
            hooks.append(anatomy.blocks[0].register_forward_pre_hook(lambda _, args: (states, *args[1:])))
        stack(input_ids=given.ids, use_cache=False)
        for hook in hooks:
            hook.remove()
        return torch.cat([output[0] if isinstance(output, tuple) else output for output in outputs][-2:])

    return torch.autograd.functional.jacobian(layers, start)[:, :, :, 0]


def test_derivatives_go_every_way_that_the_model_does(anatomy):
    """Frobenius and spectral norms and gradients, against autograd of the whole stack; the chain of blocks is wrong."""
    given, layers = batch([3]), [anatomy.layers - 1, anatomy.layers]
    assert anatomy.side_paths
    assert "derivatives" in capabilities(verify(anatomy))
    blocks = _autograd(anatomy, given)
    expected = torch.linalg.matrix_norm(blocks, dim=(2, 4))
    found = jacobian(anatomy, given, mode="exact", layers=layers)
    assert _apart(found.norms, expected) < 1e-4
    assert _apart(found.contribution, expected / expected.sum(dim=-1, keepdim=True)) < 1e-4
    gradients = jacobian(anatomy, given, norm="ones", layers=layers).norms
    assert _apart(gradients, blocks.sum(dim=2).norm(dim=-1)) < 1e-4
    spectral = jacobian(anatomy, given, norm="spectral", layers=layers[:1]).norms[0]
    assert _apart(spectral, torch.linalg.matrix_norm(blocks[0], 2, dim=(1, 3))) < 1e-4
    with linearise.linearised(anatomy, given) as chain:
        tangent = torch.randn(chain.states.shape, generator=torch.Generator().manual_seed(0))
        by_blocks = tangent[None]
        for step in chain.steps:
            by_blocks = step.push(by_blocks)
        whole = torch.einsum("tmsw,sw->tm", blocks[-1], tangent)
    assert (by_blocks[0] - whole).norm() > 1e-3 * whole.norm()


def _apart(found, expected):
    """Of cells that are not zero for all but rounding: in a decoder the future is."""
    assert found.shape == expected.shape
    near = expected.abs() <= 1e-6 * expected.abs().max()
    assert bool((found[near].abs() <= 1e-5).all())
    return ((found - expected).abs() / expected)[~near].max().item()


def test_what_is_sketched_has_the_side_paths_too():
    anatomy, given = locate(_built("both")), batch([6])
    exact = jacobian(anatomy, given, mode="exact")
    sketch = jacobian(anatomy, given, mode="sketch", error=0.005)
    wrong = (sketch.contribution - exact.contribution).abs().sum(dim=-1) / 2
    assert wrong.mean() < 0.01


def test_memory_changes_no_number_of_the_whole_stack():
    anatomy, given = locate(_built("both")), batch([4])
    found = [jacobian(anatomy, given, sources=[1], memory=memory).norms for memory in (10**6, 10**9)]
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-6)


def test_a_block_alone_holds_what_it_is_given():
    """A late layer that reads keys and values of an earlier one: its own derivative, while those stay."""
    anatomy, given = locate(_built("shared keys and values")), batch([4])
    calls = []
    hook = anatomy.blocks[3].register_forward_pre_hook(lambda _, *call: calls.append(call), with_kwargs=True)
    with torch.no_grad():
        anatomy.stack(input_ids=given.ids, use_cache=False)
    hook.remove()
    (states, *args), kwargs = calls[0]
    blocks = torch.autograd.functional.jacobian(lambda states: anatomy.blocks[3](states, *args, **kwargs)[0], states)
    expected = torch.linalg.matrix_norm(blocks[:, :, 0], dim=(1, 3))
    assert _apart(jacobian_local(anatomy, given, layers=[4]).norms[0], expected) < 1e-4


def test_the_sum_of_embeddings_is_layer_zero_where_a_norm_stands_beside():
    """Gemma 4 norms the inputs of its layers, not the embeddings; NeoMME norms the embeddings."""
    given = batch([4])
    for path, same in (("inputs of every layer", True), ("NeoMME", False)):
        anatomy = locate(_built(path))
        norms = [jacobian(anatomy, given, mode="exact", start=start).norms for start in ("embedding", "sum")]
        assert torch.equal(*norms) == same


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_as_in_full(dtype):
    """Rounding is no path; a path is found; and derivatives are those of the same weights in float32."""
    assert missed(locate(build("llama").to(dtype))).error <= CLOSE[dtype] / 2
    half = locate(_built("both").to(dtype))
    assert half.side_paths and missed(half).error <= CLOSE[dtype] / 2
    norms = jacobian(half, batch([4]), mode="exact").norms
    assert norms.dtype == torch.float32
    full = jacobian(locate(_built("both").to(dtype).float()), batch([4]), mode="exact").norms
    torch.testing.assert_close(norms, full, rtol=0.03, atol=0.03 * full.max().item())


@pytest.mark.parametrize("name", ["bert", "albert", "llama", "gemma2", "mixtral", "bloom", "xlnet", "deberta"])
def test_without_side_paths_blocks_are_a_chain(name):
    assert not locate(build(name)).side_paths


def test_gemma_4_without_side_paths_is_a_chain():
    """Though its blocks hand on keys and values that none reads."""
    anatomy = locate(_built("none"))
    assert not anatomy.side_paths and "derivatives" in capabilities(verify(anatomy))


def test_frozen_weights_are_differentiated_all_the_same():
    assert missed(locate(build("bert").requires_grad_(False))).error <= CLOSE[torch.float32]


class _Remembering(nn.Module):
    """Adds to the last layer what the first one read, by a path that no argument shows."""

    def __init__(self, model):
        super().__init__()
        self.layers, self.read = model.model.layers, []
        self.layers[0].register_forward_pre_hook(lambda _, args: self.read.append(args[0]))
        self.layers[-1].register_forward_hook(lambda _, __, output: output + 0.01 * self.read[-1])


def test_a_path_that_cannot_be_seen_takes_derivatives_away():
    model = build("llama")
    _Remembering(model)
    anatomy = locate(model)
    assert not anatomy.side_paths and missed(anatomy).error > CLOSE[torch.float32]


class _OneWay(torch.autograd.Function):
    """The identity, with a backward pass that is wrong."""

    @staticmethod
    def forward(states):
        return states.clone()

    @staticmethod
    def setup_context(context, inputs, output): ...

    @staticmethod
    def backward(context, cotangent):
        return 1.01 * cotangent

    @staticmethod
    def jvp(context, tangent):
        return tangent.clone()


def test_both_ways_have_to_agree():
    """A wrong backward pass of the model's own is in the chain of blocks too; u (J v) = (u^T J) v tells."""
    model = build("llama")
    model.model.layers[-1].register_forward_hook(lambda block, args, output: _OneWay.apply(output))
    assert missed(locate(model)).error > CLOSE[torch.float32]


def test_code_without_a_derivative_is_infinitely_far():
    model = build("llama")
    model.model.layers[-1].register_forward_hook(lambda block, args, output: output.detach())
    found = missed(locate(model))
    assert found.error == float("inf") and found.reason


@pytest.mark.parametrize("error", [RuntimeError, TypeError, AssertionError, IndexError])
def test_whatever_linearising_raises_takes_derivatives_away_in_one_sentence(monkeypatch, error):
    def strange(*given):
        raise error("a strange block\nand more of it")

    monkeypatch.setattr(linearise, "_attending", strange)
    model = whence.load(_built("none"), tiny.tokenizer())
    assert "attention" in model.gives and "derivatives" not in model.gives
    with pytest.raises(Unsupported) as refused:
        whence.measure(model, "ada bo cy", "contribution")
    assert f"does not give ({error.__name__}: a strange block and more of it); it gives" in str(refused.value)
