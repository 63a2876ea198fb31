"""The lens of one text against autograd of the blocks' own code, pushed vectors, and TransformerLens."""

import random

import pytest
import torch
from safetensors.torch import load_file
from torch.func import jacrev
from transformers import GPT2Config, GPT2LMHeadModel

from tests.conftest import SAMPLES
from tests.families import batch, build
from tests.models.test_end_to_end import BESIDE, _built
from whence.errors import BadInput, VerificationFailed
from whence.linear.chain import tangents
from whence.linear.dense import dense
from whence.linear.propagate import OwnCode
from whence.linear.tangent import by_parts
from whence.measures.lens import jacobian
from whence.measures.lens.jacobian import jacobians
from whence.models.block import Batch
from whence.models.linearise import linearised
from whence.models.locate import locate

TOKENS, SKIP = 6, 1
# decoders and encoders, norms everywhere, mixtures, parallel branches, state spaces, linear attention
NAMES = ("bert", "gpt2", "llama", "qwen3", "gemma2", "phi", "xlnet", "mixtral", "mamba", "jamba", "qwen3_next")


def whole(chain, skip=SKIP):
    """(1 / |V|) sum_t sum_t' dh^L_t' / dh^l_t for every layer, by jacrev of each block, multiplied out."""
    last = TOKENS - 1 if chain.causal else TOKENS
    span = slice(skip, last)
    product = torch.eye(chain.states.numel()).reshape(*chain.states.shape, *chain.states.shape).to(chain.states)
    found = [product[span][:, :, span].sum(dim=0).mean(dim=1)]
    for step in reversed(chain.steps):
        product = torch.tensordot(product, jacrev(step.block)(step.states), dims=2)
        found.append(product[span][:, :, span].sum(dim=0).mean(dim=1))
    return torch.stack(found[::-1])


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_mean_of_jacrev(name):
    anatomy, given = locate(build(name)), batch([TOKENS])
    layers = list(range(anatomy.layers + 1))
    found = jacobians(anatomy, given, SKIP, layers)
    with linearised(anatomy, given) as chain:
        expected = whole(chain)
    assert torch.equal(found[-1], torch.eye(anatomy.width))  # J_L = I
    for layer in layers:
        assert (found[layer] - expected[layer]).norm() < 2e-6 * expected[layer].norm()


@pytest.mark.parametrize("name", BESIDE)
def test_paths_beside_the_stream_are_in_it(name):
    """At layer 0 against jacrev of the whole stack; deeper, the stack's own last block."""
    anatomy, given = locate(_built(name)), batch([TOKENS])
    found = jacobians(anatomy, given, SKIP, range(anatomy.layers + 1))
    with linearised(anatomy, given) as chain:
        assert chain.stack is not None
        whole_stack = jacrev(chain.stack.last)(chain.stack.states)
        last = jacrev(chain.steps[-1].block)(chain.steps[-1].states)
    span = slice(SKIP, TOKENS - anatomy.causal)
    for place, product in ((0, whole_stack), (-2, last)):
        expected = product[span][:, :, span].sum(dim=0).mean(dim=1)
        assert (found[place] - expected).norm() < 1e-5 * expected.norm()


def test_skipped_tokens_pass_things_on_in_an_encoder():
    anatomy, given = locate(build("bert")), batch([TOKENS])
    with linearised(anatomy, given) as chain:
        expected = whole(chain, skip=3)
    assert (jacobians(anatomy, given, 3, [1])[0] - expected[1]).norm() < 2e-6 * expected[1].norm()


@pytest.mark.parametrize("name", ["bert", "llama", "mamba"])
def test_pulled_is_pushed(name):
    """What is read of a state is where the same change of every averaged token takes the last layer."""
    anatomy, given = locate(build(name).double()), batch([TOKENS])
    found = jacobians(anatomy, given, SKIP, [1])[0]
    span = slice(SKIP, TOKENS - anatomy.causal)
    state = torch.randn(anatomy.width, dtype=torch.float64)
    with tangents(anatomy, given) as model:
        vectors = torch.zeros_like(model.last)[None]
        vectors[:, span] = state
        pushed = model.push(vectors, start=1)[0, span].sum(dim=0) / (span.stop - span.start)
    torch.testing.assert_close(found @ state, pushed, rtol=1e-5, atol=1e-5)


def test_few_at_a_time_are_the_same(monkeypatch):
    anatomy, given = locate(build("llama")), batch([TOKENS])
    expected = jacobians(anatomy, given, SKIP, [0, 2])
    monkeypatch.setattr(jacobian, "ROOM", 10 * 4 * TOKENS * anatomy.width)
    torch.testing.assert_close(jacobians(anatomy, given, SKIP, [0, 2]), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "qwen3", "granite", "olmo", "nomic_bert"])
def test_the_dense_block_is_the_blocks_own(name):
    anatomy = locate(build(name))
    with linearised(anatomy, batch([20])) as chain:
        step, tokens = chain.steps[-1], slice(2, 19) if chain.causal else slice(0, 20)
        block = dense(step, by_parts(step, back=True), tokens)
        assert block is not None
        covectors = torch.randn(tokens.stop - tokens.start, 70, anatomy.width)
        expected = OwnCode(step, tokens).pull(covectors.transpose(0, 1)).transpose(0, 1)
        assert (block.pull(covectors) - expected).norm() < 1e-5 * expected.norm()


@pytest.mark.parametrize("name", ["phi", "mixtral", "gemma2", "bloom"])
def test_a_block_of_another_form_is_not_dense(name):
    with linearised(locate(build(name)), batch([TOKENS])) as chain:
        step = chain.steps[-1]
        assert dense(step, by_parts(step, back=True), slice(0, TOKENS)) is None


def test_a_wrong_turn_is_found_out(monkeypatch):
    """Where the watched reading is not the block's own, the block is gone through as it is."""
    with linearised(locate(build("llama")), batch([TOKENS])) as chain:
        step = chain.steps[-1]
        parts = by_parts(step, back=True)
        assert dense(step, parts, slice(0, TOKENS)) is not None
        turned = torch.roll
        monkeypatch.setattr(
            "whence.linear.dense._turns", lambda *given: [turned(each, 1, 2) for each in _turns(*given)]
        )
        assert dense(step, parts, slice(0, TOKENS)) is None


def _turns(step, watched, width):
    eye = torch.eye(width).expand(4, TOKENS, -1, -1)
    return eye, eye[:2], eye[:2]


def test_a_wrong_lens_is_refused(monkeypatch):
    anatomy = locate(build("llama"))
    monkeypatch.setattr(jacobian, "_block", lambda *given: _Nothing())
    with pytest.raises(VerificationFailed, match="away from a backward pass"):
        jacobians(anatomy, batch([TOKENS]), SKIP, [0])


class _Nothing:
    def pull(self, covectors):
        return covectors


def test_a_short_text_is_refused():
    with pytest.raises(BadInput, match="6 tokens long, and with 5 skipped and the last left out none is left"):
        jacobians(locate(build("gpt2")), batch([TOKENS]), 5, [0])


def test_it_is_that_of_transformer_lens():
    """tests/samples/lens_peer.py made the file with TransformerLens 4.3.0; blocks count from 0 there."""
    saved = load_file(SAMPLES / "lens_peer.safetensors")
    config = GPT2Config(vocab_size=29, n_embd=16, n_layer=3, n_head=4, n_positions=32, n_inner=32)
    network = GPT2LMHeadModel(config).eval()
    lens = {name: saved.pop(name) for name in list(saved) if name.startswith("lens.")}
    assert network.load_state_dict(saved, strict=False).missing_keys == ["lm_head.weight"]
    network.tie_weights()
    texts = [random.Random(seed).choices(range(29), k=count) for count, seed in ((24, 0), (24, 1), (19, 2))]
    batches = [Batch(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.bool)) for ids in texts]
    anatomy = locate(network)
    found = torch.stack([jacobians(anatomy, each, 5, [1, 2]) for each in batches]).mean(dim=0)
    for block in (0, 1):
        expected = lens[f"lens.{block}"]
        assert expected.std() > 0.05
        assert (found[block] - expected).abs().max() < 1e-4
