"""Tangents on their way: the same whichever way they go, as pushed through the blocks' own code one after the other."""

import pytest
import torch

from tests.families import batch, build
from whence.linear import travel
from whence.linear.fold import fold, pays
from whence.linear.travel import Bundle, Road
from whence.models.linearise import linearised
from whence.models.locate import locate

SOURCES, TOKENS = (1, 3), 5
FEW, MANY = 4, 60  # tangents of a source: too few to multiply the blocks out, and enough


def arrived(road, bundles):
    """Tangents after each block by layer and bundle, with zeros for the tokens that are left out."""
    found = {}

    def visit(layer, sizes, tangents):
        whole = torch.nn.functional.pad(tangents, (0, 0, 0, 0, TOKENS - len(tangents), 0))
        for which, own in zip(sizes, whole.split(list(sizes.values()), dim=1), strict=True):
            found[layer, which] = own

    travel.travel(road, bundles, visit)
    return found


@pytest.mark.parametrize("kept", [False, True], ids=["anew", "kept"])
@pytest.mark.parametrize("count", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("name", ["bert", "llama", "olmo2", "phi", "xlnet"])
def test_every_way_is_the_blocks_own(name, count, kept):
    with linearised(locate(build(name)), batch([TOKENS])) as chain:
        road, step = Road.of(chain, 2, 2**28), chain.steps[0]
        assert step.attended is None or pays(count * len(SOURCES), step) is (count == MANY)
        maps = fold(step, road.ways[0], 50) if kept else None
        road = road.keeping(maps)
        assert (road.first is None) is (maps is None)
        bundles = [Bundle(source, torch.randn(count, chain.width)) for source in SOURCES]
        found = arrived(road, bundles)
        for which, bundle in enumerate(bundles):
            tangents = torch.zeros(count, TOKENS, chain.width)
            tangents[:, bundle.source] = bundle.vectors
            for layer in range(road.depth):
                tangents = chain.steps[layer].push(tangents)
                expected = tangents.transpose(0, 1)
                scale = expected.abs().max()
                torch.testing.assert_close(found[layer, which] / scale, expected / scale, rtol=0, atol=1e-5)


def test_maps_are_not_kept_where_no_tangent_has_room_beside_them():
    with linearised(locate(build("bert")), batch([TOKENS])) as chain:
        road = Road.of(chain, 2, 2**28)
        maps = fold(chain.steps[0], road.ways[0], 50)
        beside = road.memory - road.keeping(maps).room
        least = beside + travel._inside(chain)
        assert Road.of(chain, 2, least).keeping(maps).first is maps
        assert Road.of(chain, 2, least - 1).keeping(maps).first is None
