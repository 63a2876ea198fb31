"""Summaries of contributions, against maps small enough to work out by hand."""

import numpy as np
import pytest
import torch

import whence
from whence.measures.flow import summaries as flow

MAP = torch.tensor([[[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]]])


def test_shares_sum_to_one():
    found = flow.shares(torch.tensor([[[3.0, 1.0], [0.0, 2.0]]]))
    torch.testing.assert_close(found, torch.tensor([[[0.75, 0.25], [0.0, 1.0]]]))


def test_own():
    torch.testing.assert_close(flow.own(MAP), torch.tensor([[0.6, 0.3, 0.6]]))
    assert flow.own_is_largest(MAP).tolist() == [[True, False, True]]


def test_by_distance():
    expected = torch.tensor([[0.2, 0.5 + 0.2, 1.5, 0.3 + 0.2, 0.1]])
    torch.testing.assert_close(flow.by_distance(MAP), expected)
    torch.testing.assert_close(flow.by_distance(MAP).sum(dim=-1), torch.tensor([3.0]))


def test_by_neighbour_takes_left_and_right_first():
    found = flow.by_neighbour(MAP)
    torch.testing.assert_close(found[0, :, 0], torch.tensor([0.3, (0.5 + 0.2) / 2, 0.2]))
    torch.testing.assert_close(found[0, :, 1], torch.tensor([0.1, torch.nan, 0.2]), equal_nan=True)
    assert found[0, :, 2:].isnan().all()


def test_groups_reach_as_far_as_they_say():
    """Where every contribution is its distance, a group's mean lies within the group."""
    places = torch.arange(30.0)
    distances = (places[:, None] - places[None]).abs()[None]
    found = flow.by_neighbour(distances)[0]
    torch.testing.assert_close(found[15], torch.tensor([1.0, 2.0, 3.0, 4.5, 8.0, 13.0]))
    torch.testing.assert_close(found[0], torch.tensor([1.0, 2.0, 3.0, 4.5, 8.0, 20.0]))


def test_one_sentence_of_one_token():
    alone = torch.ones(2, 1, 1)
    assert flow.by_distance(alone).tolist() == [[1.0], [1.0]]
    assert flow.by_neighbour(alone).isnan().all()


@pytest.mark.parametrize("layers", [None, [2, 5]])
def test_the_dataset_has_them_with_their_places(builtin, layers):
    """Against the sums written out, from the map in the same Dataset."""
    found = whence.measure(
        builtin, "A cat sat on it.", [whence.Contribution(mode="exact"), whence.Origin(mode="exact")], layers=layers
    )
    c, tokens = found.contribution.values, found.sizes["target"]
    np.testing.assert_array_equal(found.self_contribution, [[row[i, i] for i in range(tokens)] for row in c])
    np.testing.assert_array_equal(found.own_largest, [[row[i].argmax() == i for i in range(tokens)] for row in c])
    ahead = [[row[i, i + 2] for i in range(tokens - 2)] for row in c]
    np.testing.assert_allclose(found.by_distance.sel(distance=2), np.sum(ahead, axis=1), rtol=1e-5)
    third = (c[:, 3, 0] + c[:, 3, 6]) / 2
    np.testing.assert_allclose(found.by_neighbour.sel(neighbour="3", target=3), third, rtol=1e-5)
    assert found.contribution.attrs["probes"] == builtin.anatomy.width and not found.contribution_se.any()
    assert found.contribution.attrs["misplaced"] == 0


def test_it_is_said_how_many_directions_were_tried_and_what_they_reached(builtin):
    found = whence.measure(builtin, "A cat sat on it.", whence.Jacobian(mode="sketch", error=0.1))
    assert 4 <= found.jacobian.attrs["probes"] < builtin.anatomy.width
    assert 0 < found.jacobian.attrs["misplaced"] <= 0.1
