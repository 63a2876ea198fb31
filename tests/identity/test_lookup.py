"""The look-up against loops over tokens, and ties against arithmetic."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whence.identity.lookup import chance, evaluate
from whence.identity.task import Task


def looped(states, layer, goal_layer, offset, loss):
    """row -> (found, same id found): one token after the other, float64."""
    outcome = {}
    for start, length in zip(states.starts, states.lengths, strict=True):
        hidden = states.layer(layer)[start : start + length].astype(float)
        candidates = states.layer(goal_layer)[start : start + length].astype(float)
        ids = states.ids[start : start + length]
        for token in range(length):
            goal = token + offset
            if not 0 <= goal < length:
                continue
            if loss == "cosine":
                lengths = np.linalg.norm(candidates, axis=1) * np.linalg.norm(hidden[token])
                distance = 1 - candidates @ hidden[token] / lengths
            else:
                distance = np.linalg.norm(candidates - hidden[token], axis=1)
            nearest = int(np.argmin(distance))
            outcome[start + token] = (nearest == goal, ids[nearest] == ids[goal])
    return outcome


@pytest.mark.parametrize("loss", ["cosine", "l2"])
@pytest.mark.parametrize("offset", [0, 1, -2])
def test_equals_a_loop(made, loss, offset):
    drawn = np.random.default_rng(0)
    lengths = [5, 3, 9, 4, 4, 7]
    inputs = drawn.normal(size=(32, 6)) * drawn.uniform(0.5, 3, size=(32, 1))
    hidden = inputs + drawn.normal(size=(32, 6))
    states = made([inputs, hidden], lengths, ids=drawn.integers(0, 4, 32))
    (outcome,) = evaluate("naive", [{}], loss, Task(states, 1, 0, offset), np.arange(6))
    expected = looped(states, 1, 0, offset, loss)
    assert sorted(outcome.places) == sorted(expected)
    for place, found, type_found in zip(outcome.places, outcome.found, outcome.type_found, strict=True):
        assert (found, type_found) == expected[place]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=40), st.sampled_from(["cosine", "l2"]), st.integers(0, 9))
def test_k_equal_candidates_count_one_kth(made, kinds, loss, seed):
    """Without positions a repeated token has the same vector each time: 1/k of the position, all of the type."""
    table = np.random.default_rng(seed).normal(size=(4, 37))
    rows = table[kinds]
    states = made([rows], [len(kinds)], ids=kinds)
    (outcome,) = evaluate("naive", [{}], loss, Task(states, 0), np.array([0]))
    assert np.allclose(outcome.found, [1 / kinds.count(kind) for kind in kinds])
    assert np.allclose(outcome.type_found, 1)


def test_a_vector_of_zeros_is_a_guess(made):
    inputs = np.random.default_rng(0).normal(size=(5, 4))
    states = made([inputs, np.zeros((5, 4))], [5])
    (outcome,) = evaluate("naive", [{}], "cosine", Task(states, 1), np.array([0]))
    assert np.allclose(outcome.found, 0.2)


def test_padding_changes_nothing(made):
    drawn = np.random.default_rng(0)
    lengths = [2, 11, 5]
    states = made([drawn.normal(size=(18, 4)), drawn.normal(size=(18, 4))], lengths)
    (together,) = evaluate("naive", [{}], "l2", Task(states, 1), np.arange(3))
    apart = [evaluate("naive", [{}], "l2", Task(states, 1), np.array([number]))[0] for number in range(3)]
    answers = dict(zip(together.places, together.answer, strict=True))
    assert [len(outcome.places) for outcome in apart] == lengths
    for outcome in apart:
        assert [answers[place] for place in outcome.places] == outcome.answer.tolist()


@pytest.mark.parametrize("offset", [0, 2, -1])
def test_chance_is_the_rate_of_guessing(made, offset):
    lengths = [4, 6, 3]
    states = made([np.zeros((13, 2))], lengths)
    drawn, guesses = np.random.default_rng(0), []
    for length in lengths:
        goals = [token + offset for token in range(length) if 0 <= token + offset < length]
        guesses += [drawn.integers(0, length, 20_000) == goal for goal in goals]
    assert chance(Task(states, 0, 0, offset), np.arange(3)) == pytest.approx(np.mean(guesses), abs=0.005)


def test_chance_of_the_token_itself_is_one_over_the_length(made):
    assert chance(Task(made([np.zeros((13, 2))], [4, 6, 3]), 0), np.arange(3)) == pytest.approx(3 / 13)


def test_wanted_vectors(made):
    rows = np.arange(10, dtype=float)[:, None]
    states = made([rows, 10 * rows], [4, 6])
    task = Task(states, 1, 0, offset=1)
    hidden, wanted = task.rows(task.places(np.array([1, 0])))
    assert hidden[:, 0].tolist() == [40, 50, 60, 70, 80, 0, 10, 20]
    assert torch.equal(wanted * 10, hidden + 10)
    for piece in task.pieces(np.array([0, 1])):
        assert torch.equal(piece.wanted[piece.tested] * 10, piece.hidden[piece.tested] + 10)


def test_a_huge_candidate_makes_no_ties_of_the_others(made):
    """The lengths of the two that are compared tell how exact their scores are, not that of the longest of all."""
    rows = np.random.default_rng(0).normal(size=(6, 16))
    rows[0, 3] = 1e5
    states = made([rows], [6], ids=np.arange(6))
    (outcome,) = evaluate("naive", [{}], "l2", Task(states, 0), np.array([0]))
    assert np.array_equal(outcome.found, np.ones(6))
