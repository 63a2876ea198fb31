"""Control variates: the same mean with less variance, exact in layer 1, and no harm where they do not help."""

import pytest
import torch

from tests.families import batch, build
from whence.linear.controls import ENOUGH, spread, steadied
from whence.linear.sketch import probes
from whence.linear.travel import Road
from whence.measures.flow.contribution import _Asked, _first, jacobian
from whence.models.linearise import linearised
from whence.models.locate import locate

WIDTH, TARGETS, SOURCES, PROBES = 12, 5, (0, 2, 4), 9


@pytest.fixture(scope="module")
def maps():
    """J of two layers: the second is much like the first, as in a model with a residual stream."""
    generator = torch.Generator().manual_seed(3)
    first = torch.randn(TARGETS, len(SOURCES), WIDTH, 4, generator=generator, dtype=torch.float64)
    change = torch.randn(first.shape, generator=generator, dtype=torch.float64)
    return torch.stack([first, first + 0.4 * change])


def squares_of(maps, seed):
    """|J u|^2 of the probes of one seed: probe x layer x target x source."""
    drawn = torch.stack([probes(WIDTH, source, PROBES, seed) for source in SOURCES])
    return torch.einsum("skw,ltswm->kltsm", drawn, maps).square().sum(dim=-1)


def test_varies_less_around_the_same_mean(maps):
    true = maps.square().sum(dim=(-1, -2))
    plain = torch.stack([squares_of(maps, seed).mean(dim=0) for seed in range(400)])
    steady = torch.stack([steadied(squares_of(maps, seed), true[0], SOURCES).mean(dim=0) for seed in range(400)])
    torch.testing.assert_close(steady[:, 0], true[0].expand(400, -1, -1))
    assert steady[:, 1].var(dim=0).mean() < 0.5 * plain[:, 1].var(dim=0).mean()
    assert ((steady[:, 1].mean(dim=0) / true[1]) - 1).abs().mean() < 0.01


def test_the_error_covers_what_fitting_the_weights_adds(maps):
    """The variance that the jackknife states is that of the steadied means or a little more; of what is left, less."""
    true = maps.square().sum(dim=(-1, -2))
    drawn = [squares_of(maps, seed) for seed in range(150)]
    means = torch.stack([steadied(squares, true[0], SOURCES).mean(dim=0)[1] for squares in drawn])
    stated = {
        name: torch.stack([varying(squares, true[0], SOURCES)[:, 1].var(dim=0) for squares in drawn]).mean()
        for name, varying in (("plain", steadied), ("jackknife", spread))
    }
    stated = {name: float(variance / PROBES * (1 - PROBES / WIDTH)) for name, variance in stated.items()}
    happened = float((means - true[1]).square().mean())
    assert stated["plain"] < 0.95 * happened
    assert happened < stated["jackknife"] < 2.5 * happened
    assert torch.equal(spread(drawn[0], true[0], SOURCES)[:, 0], true[0].expand(PROBES, -1, -1))


def test_all_directions_are_left_as_they_are(maps):
    true = maps.square().sum(dim=(-1, -2))
    drawn = torch.stack([probes(WIDTH, source, WIDTH, 0) for source in SOURCES])
    squares = torch.einsum("skw,ltswm->kltsm", drawn, maps).square().sum(dim=-1)
    torch.testing.assert_close(steadied(squares, true[0], SOURCES).mean(dim=0), true)


def test_too_few_probes_are_left_as_they_are(maps):
    few = squares_of(maps, 0)[: ENOUGH // len(SOURCES)]
    assert steadied(few, maps[0].square().sum(dim=(-1, -2)), SOURCES) is few


def test_cells_without_flow_stay_empty(maps):
    open_cells = torch.tensor(SOURCES)[None] <= torch.arange(TARGETS)[:, None]
    causal = maps * open_cells[:, :, None, None]
    steady = steadied(squares_of(causal, 1), causal[0].square().sum(dim=(-1, -2)), SOURCES)
    assert steady.isfinite().all()
    assert not steady[:, :, ~open_cells].any() and (steady.mean(dim=0)[:, open_cells] > 0).all()


@pytest.mark.parametrize("start", ["embedding", "sum"])
@pytest.mark.parametrize("name", ["bert", "llama", "gpt2"])
@pytest.mark.parametrize("memory", [10**6, 2**31])
def test_layer_1_is_exact_whatever_the_memory(name, start, memory):
    anatomy, given = locate(build(name)), batch([6])
    exact = jacobian(anatomy, given, mode="exact", layers=[1], sources=[1, 4], start=start).norms[0]
    with linearised(anatomy, given, embedding_sum=start == "sum") as chain:
        found = _first(Road.of(chain, 1, memory), _Asked.of(anatomy, given, None, None, [1, 4]))
    torch.testing.assert_close(found.squares.sqrt(), exact, rtol=1e-4, atol=1e-6)
