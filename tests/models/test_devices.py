"""A model over two devices: states follow their block, and nothing is done with tensors of both at once."""

import pytest
import torch
from torch import nn

from tests.families import batch, build
from tests.models.devices import FIRST, SECOND, TwoDevices, over_two
from whence.linear.secant import Backwards
from whence.measures.flow.contribution import jacobian, jacobian_local
from whence.measures.flow.decomposition import decomposition
from whence.measures.flow.prediction import Predicted, Pulls, dependence, shares
from whence.measures.flow.readout import of_tokens
from whence.models.capture import walk
from whence.models.linearise import linearised
from whence.models.locate import locate
from whence.models.verify import LONG, capabilities, verify

TOKENS = 5


def numbers(anatomy):
    """What a measure of each kind gives."""
    given, predicted, readout = batch([TOKENS]), [Predicted(7)], of_tokens(anatomy, [TOKENS - 1], TOKENS)
    yield jacobian(anatomy, given, mode="exact").norms
    yield jacobian(anatomy, given, mode="exact", targets=[1], layers=[1, 3]).norms
    yield jacobian(anatomy, given, mode="sketch", error=0.2).norms
    yield jacobian_local(anatomy, given).norms[-1]
    yield decomposition(anatomy, given).length
    yield shares(Backwards.of(anatomy, given, 2), readout, predicted, Pulls()).share
    with linearised(anatomy, given, attending=False) as chain:
        yield dependence(readout, chain, predicted, Pulls())


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_over_two_devices(name):
    model = build(name, tie_word_embeddings=False)
    alone = locate(model)
    expected, gives = list(numbers(alone)), capabilities(verify(alone))
    blocks = next(list(part) for part in model.modules() if isinstance(part, nn.ModuleList))
    with TwoDevices():
        anatomy = locate(over_two(model, blocks))
        places = walk(anatomy, batch([TOKENS]), lambda block: (block.input.device, block.output.device)).blocks
        assert places[0] == (FIRST, FIRST) and places[-1] == (SECOND, SECOND)
        lacks = {LONG} if name == "llama" else set()  # a causal mask that moves to another device is no recipe
        assert capabilities(verify(anatomy)) == gives - lacks
        measured = list(numbers(anatomy))
    for one, other in zip(measured, expected, strict=True):
        assert torch.allclose(one.cpu(), other, rtol=1e-5, atol=1e-6)


def test_the_simulated_devices_are_apart():
    with TwoDevices():
        first, second = torch.ones(2, device=FIRST), torch.ones(2, device=SECOND)
        with pytest.raises(RuntimeError, match=r"tensors on \['cuda:0', 'cuda:1'\]"):
            first + second
        assert (first + second.to(first.device)).device == FIRST and (first @ first).device == FIRST
