"""Vectors on their way: the same whichever way they go, as sent through the blocks' own code one after the other."""

import pytest
import torch

from tests.families import batch, build
from whence.errors import BadInput
from whence.linear import cost
from whence.linear.propagate import Bundle, Propagator, making
from whence.models.linearise import linearised
from whence.models.locate import locate

TOKENS, DEPTH = 5, 2
LITTLE, MUCH = 2**20, 2**28  # bytes
STARTS = ((0, 1), (0, 3), (1, 2))  # layer and token that tangents start from
ENDS = ((2, 1), (2, 3), (1, 2))  # and cotangents
COUNTS = {"own code": 4, "by parts": 12, "multiplied": 60}  # vectors of a start


def arrived(propagator, bundles):
    """Vectors by layer and bundle, with zeros for the tokens that are left out."""
    found = {}

    def visit(layer, pack):
        for which, vectors in pack.split():
            found[layer, which] = vectors.new_zeros(len(vectors), TOKENS, vectors.shape[-1])
            found[layer, which][:, pack.tokens] = vectors

    propagator.send(bundles, visit)
    return found


def one_by_one(chain, bundles, back):
    """The same through the blocks' own code."""
    found = {}
    for which, bundle in enumerate(bundles):
        vectors = torch.zeros(len(bundle.vectors), TOKENS, chain.width)
        vectors[:, bundle.token] = bundle.vectors
        for layer in reversed(range(bundle.layer)) if back else range(bundle.layer, DEPTH):
            step = chain.steps[layer]
            vectors = step.pull(vectors) if back else step.push(vectors)
            found[layer if back else layer + 1, which] = vectors
    return found


@pytest.mark.parametrize("back", [False, True], ids=["pushed", "pulled"])
@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
@pytest.mark.parametrize(
    ("name", "memory"),
    [(name, MUCH) for name in ("bert", "llama", "olmo2", "phi", "xlnet")] + [("bert", LITTLE), ("xlnet", LITTLE)],
)
def test_every_way_is_the_blocks_own(name, count, back, memory):
    with linearised(locate(build(name)), batch([TOKENS]), depth=DEPTH) as chain:
        step, total = chain.steps[0], count * len(STARTS)
        pays = cost.multiplying_pays(total, chain.width, making(step))
        assert step.attended is None or (pays, total >= cost.PARTS) == (count >= 60, count >= 12)
        bundles = [Bundle(token, torch.randn(count, chain.width), layer) for layer, token in (ENDS if back else STARTS)]
        found = arrived(Propagator(chain, memory, back), bundles)
        expected = one_by_one(chain, bundles, back)
        assert found.keys() == expected.keys()
        for key, vectors in expected.items():
            scale = vectors.abs().max()
            torch.testing.assert_close(found[key] / scale, vectors / scale, rtol=0, atol=1e-5)


def test_tokens_out_of_reach_are_left_out():
    """A decoder's tangent moves nothing before it, and its cotangent depends on nothing behind it."""
    with linearised(locate(build("llama")), batch([TOKENS]), depth=DEPTH) as chain:
        for back, layer, tokens in ((False, 0, slice(3, TOKENS)), (True, 2, slice(0, 4))):
            seen = []
            bundle = Bundle(3, torch.randn(2, chain.width), layer)
            Propagator(chain, 2**28, back).send([bundle], lambda layer, pack, seen=seen: seen.append(pack.tokens))
            assert seen == [tokens] * DEPTH


def test_progress_counts_blocks_that_are_passed():
    with linearised(locate(build("bert")), batch([TOKENS]), depth=DEPTH) as chain:
        told = []
        bundles = [Bundle(token, torch.randn(3, chain.width), layer) for layer, token in ENDS]
        Propagator(chain, 2**28, True, lambda *done: told.append(done)).send(bundles, lambda *_: None)
        assert told[-1] == (15, 15) and [done for done, _ in told] == sorted(done for done, _ in told)


def test_too_little_memory_for_one_vector_is_refused():
    with (
        linearised(locate(build("bert")), batch([TOKENS]), depth=DEPTH) as chain,
        pytest.raises(BadInput, match="One tangent of 5 tokens takes"),
    ):
        Propagator(chain, 1000).portion()
