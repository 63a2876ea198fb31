"""An explained prediction in words: sinks, per cent, numbers and tokens as people read them."""

import numpy as np
import pytest
import xarray

from whence.plot.terminal_why import MOST_TOKENS, picture
from whence.plot.why import chance, explained, gaps, in_percent, limit, number, rows, sink_of, span_names, whole, worded


def explained_dataset(shares, tokens=None, causal=1, predicted=None, bias=0.0, **coords):
    """A Dataset as whence.why gives it, of these shares at layer 0; at layer 1 all sits where it is predicted."""
    shares = np.atleast_2d(np.array(shares, dtype=np.float32))
    count, sources = shares.shape
    predicted = list(predicted or range(sources - count, sources))
    last = np.zeros_like(shares)
    last[range(count), predicted] = shares.sum(axis=1) + bias
    tokens = tokens or [f"t{place}" for place in range(sources)]
    logit = shares.sum(axis=1) + bias
    return xarray.Dataset(
        {
            "share": (("predicted", "layer", "source"), np.stack([shares, last], axis=1)),
            "bias": (("predicted", "layer"), np.tile(np.float32([bias, 0]), (count, 1))),
            "logit": ("predicted", logit),
            "probability": ("predicted", np.full(count, 0.25, dtype=np.float32)),
            "place": ("predicted", np.ones(count, dtype=int)),
        },
        {
            "predicted": predicted,
            "predicted_token": ("predicted", ["▁word"] * count),
            "predicted_token_id": ("predicted", [5] * count),
            "layer": [0, 1],
            "source": range(sources),
            "source_token": ("source", tokens),
            "source_word": ("source", tokens),
            "source_is_special": ("source", [False] * sources),
        }
        | coords,
        {"causal": causal, "text": "", "pair": "", "model": "a/model"},
    )


@pytest.mark.parametrize(
    ("shares", "causal", "predicted", "found"),
    [
        ([5, 1, 2], 1, [2], 0),
        ([-5, 1, 2], 1, [2], 0),  # by size
        ([5, 1, 2], 0, [2], None),  # an encoder has none
        ([1, 5, 2], 1, [2], None),
        ([5, 1, 2], 1, [0], None),  # where it predicts itself
    ],
)
def test_a_sink_is_a_decoders_first_token_that_holds_most(shares, causal, predicted, found):
    ds = explained_dataset(shares, causal=causal, predicted=predicted).isel(predicted=0)
    values = ds.share.values[0]
    assert sink_of(ds, "share", values) == found
    assert limit(values, found) == (2 if found == 0 else 5)
    assert ("first token (sink)" in picture(ds.expand_dims("predicted"), [0], 80, False).plain) == (found == 0)


@pytest.mark.parametrize(
    ("values", "bias", "told"),
    [([3, 1], 0.0, True), ([-3, -1], 0.0, True), ([3, -1], 0.0, False), ([3, 1], -1.0, False)],
)
def test_parts_that_cancel_are_not_told_in_per_cent(values, bias, told):
    assert in_percent(np.array(values, dtype=np.float32), bias) == told
    shown = picture(explained_dataset(values, bias=bias), [0], 80, False).plain
    assert ("of all" in shown) == told and ("75 %" in shown.split("sits at")[0]) == told


def test_a_span_around_the_sink_is_not_the_sink():
    spans = {"source_span": ("source", [0, 0, 1]), "span": [0, 1], "span_text": ("span", ["two", "one"])}
    ds = explained_dataset([5, 1, 2], **spans)
    ds["span_share"] = ("predicted", "layer", "span"), np.array([[[6, 2], [0, 8]]], dtype=np.float32)
    found = rows(ds.isel(predicted=0))
    assert [(row.labelled, row.values["share"], row.is_sink) for row in found] == [
        ("two – with the sink", 6.0, False),
        ("one", 2.0, False),
    ]


def test_predictions_as_one_are_their_sum():
    ds = explained_dataset([[1, 2, 0], [3, 1, 4]])
    assert whole(ds).share.values[0].tolist() == [4, 3, 4] and float(whole(ds).logit) == 11
    assert whole(ds.isel(predicted=[0])) is None


def test_the_layer_from_which_half_of_it_is_there():
    assert explained(explained_dataset([1, 2]))[0].settled == 0  # 2 of 3 from the start
    assert explained(explained_dataset([2, 1]))[0].settled == 1
    assert explained(explained_dataset([1, -1]))[0].settled is None  # parts of nothing


def test_a_lead_is_called_one():
    ds = explained_dataset([1, -3], against_token=("predicted", ["▁other"]), against_token_id=("predicted", [7]))
    assert (
        explained(ds)[0].finding
        == "“word” is 2.00 behind “other” after “t1”; of that, −3.00 came from “t1” and 1.00 from “t0”"
    )


@pytest.mark.parametrize(
    ("tokens", "spaces"),
    [
        (["The", "▁cat", "s"], [False, True, False]),
        (["[CLS]", "play", "##ing", "."], [False, True, False, True]),
    ],
)
def test_words_stand_apart_and_pieces_together(tokens, spaces):
    assert gaps(tokens) == spaces


def test_tokens_as_people_read_them():
    assert [worded(token) for token in ("▁Paris", "▁", "##s", "\u202e", "")] == ["Paris", "▁", "##s", "⟨202E⟩", "∅"]
    assert span_names(explained_dataset([1, 2, 3], tokens=["a", "▁a", "b"])) == ["a(0)", "a(1)", "b"]


def test_numbers_and_chances():
    assert [number(value) for value in (12.345, 1.5, -0.0312, 0.0, 1e-9)] == ["12.3", "1.50", "−0.031", "0.00", "0.00"]
    assert [chance(value) for value in (0.77, 0.065, 0.0004, 1e-9, 0.0)] == [
        *("77 %", "6.5 %", "0.04 %", "less than 0.01 %", "0.00 %")
    ]


def test_of_a_long_text_its_ends_are_shown():
    shares = np.linspace(0, 1, MOST_TOKENS + 50)
    shown = picture(explained_dataset(shares), [0], 60, True).plain
    assert "… 50 tokens …" in shown and "t0" in shown and f"t{MOST_TOKENS + 49}" in shown
    assert f"t{MOST_TOKENS // 3 + 5} " not in shown
    assert all(len(line) <= 60 for line in shown.splitlines())


def test_an_answer_of_several_lines_is_told_in_one():
    ds = explained_dataset([1, 2, 3]).assign_coords(predicted_token=("predicted", ["Paris.\n\nThe answer"]))
    assert explained(ds.drop_vars("place"))[0].finding.startswith("“Paris. The answer” as one: 25 %")


def test_two_sources_of_one_name_are_told_apart_by_their_places():
    ds = explained_dataset([5, 1, 4], ["▁a", "▁b", "▁a"], causal=0)
    assert explained(ds)[0].finding.endswith("5.00 came from “a”(0) and 4.00 from “a”(2)")
