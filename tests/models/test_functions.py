"""Functions with a backward pass of their own: written out for this thread's derivatives, and put back."""

import threading

import pytest
import torch
from torch.autograd import Function
from torch.func import jvp
from transformers.models.bloom.modeling_bloom import GeLUFunction

from tests.families import build
from whence.models.functions import written_out


@pytest.fixture(scope="module")
def bloom():
    return build("bloom")


def test_they_have_a_forward_derivative_only_inside(bloom):
    points, ones = torch.linspace(-3, 3, 20, dtype=torch.float64), torch.ones(20, dtype=torch.float64)
    with written_out(bloom):
        slopes = jvp(GeLUFunction.apply, (points,), (ones,))[1]
    step = 1e-6
    naive = (GeLUFunction.apply(points + step) - GeLUFunction.apply(points - step)) / (2 * step)
    torch.testing.assert_close(slopes, naive, rtol=1e-6, atol=1e-8)
    with pytest.raises(RuntimeError):
        jvp(GeLUFunction.apply, (points,), (ones,))


def test_they_are_put_back_whatever_happens(bloom):
    with pytest.raises(ZeroDivisionError), written_out(bloom):
        with written_out(bloom):
            pass
        assert "apply" in vars(GeLUFunction)
        raise ZeroDivisionError
    assert "apply" not in vars(GeLUFunction) and GeLUFunction.apply.__func__ is Function.apply.__func__


def test_a_pass_in_another_thread_keeps_its_own_backward(bloom):
    seen = []

    def train():
        seen.append(type(GeLUFunction.apply(torch.ones(2, requires_grad=True)).grad_fn).__name__)

    with written_out(bloom):
        other = threading.Thread(target=train)
        other.start()
        other.join()
        train()
    assert seen[0] == "GeLUFunctionBackward" and seen[1] != seen[0]
