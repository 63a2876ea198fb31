"""An encoder-decoder in pictures: one Dataset over both texts, words, the alignment as a chart, the terminal."""

import json

import numpy as np
import pytest
from rich.cells import cell_len
from tests.stacks import loaded

import whence
from whence.errors import BadInput
from whence.plot import charts
from whence.plot.stacks import aligned, alignments, by_word, is_tree, joined, layer_names, texts, words
from whence.plot.terminal_why import picture

SOURCE, PREFIX = "ada bo cy dee ed ed", "fay gus hal"
MEASURES = ["attention", "effective", "null", "value_rank", "norms", "mixing", "contribution", "decomposition"]


@pytest.fixture(scope="module")
def model():
    return loaded("t5")


@pytest.fixture(scope="module")
def tree(model):
    return whence.measure(model, (SOURCE, PREFIX), MEASURES)


@pytest.fixture(scope="module")
def reasons(model):
    return whence.why(model, SOURCE, answer=PREFIX, spans="word")


def test_maps_stand_side_by_side_and_ratios_are_those_of_the_answer(tree):
    ds, cross, decoder = joined(tree), tree["cross"], tree["decoder"]
    border = tree["encoder"].sizes["target"]
    for name in ("attention", "norms", "contribution", "decomposition_signed"):
        assert np.array_equal(ds[name].sel(source=slice(0, border - 1)), cross[name])
        assert np.array_equal(ds[name].sel(source=slice(border, None)), decoder[name])
    assert ds.contribution.sum("source").values == pytest.approx(1)
    assert np.array_equal(ds.mixing, decoder.mixing)
    assert "value_rank" not in ds, "of which attention would it be?"
    assert list(ds.source_token.values) == [*tree["encoder"].target_token.values, *decoder.target_token.values]
    assert list(ds.target.values) == list(range(border, ds.sizes["source"]))
    assert (ds.source_token.sel(source=ds.target.values).values == ds.target_token.values).all()


def test_some_targets_keep_their_places(model, tree):
    some = joined(whence.measure(model, (SOURCE, PREFIX), ["attention", "mixing"], targets=[-1]))
    assert some.target.values.tolist() == [joined(tree).sizes["source"] - 1]
    assert some.attention.values == pytest.approx(joined(tree).attention.sel(target=some.target.values).values)
    alone = joined(whence.measure(model, (SOURCE, PREFIX), ["mixing"]))
    assert np.array_equal(alone.source_token, joined(tree).source_token)


def test_a_tree_is_known_by_its_parts_and_texts_by_their_stack(tree, reasons):
    assert is_tree(tree) and not is_tree(tree["cross"]) and not is_tree(reasons)
    border = tree["encoder"].sizes["target"]
    assert texts(joined(tree)) == texts(reasons) == [("Source", 0), ("Answer", border)]
    assert texts(tree["encoder"].to_dataset()) == []
    assert layer_names(reasons) == ["0", "encoder 1", "encoder 2", "encoder 3", "decoder 1", "decoder 2"]


def test_words_begin_where_tokens_do_also_behind_the_same_word():
    tokens = ["▁the", "▁the", "y", "</s>", "<pad>", "▁un", "know", "able", "."]
    of_words = ["the", "they", "they", "", "", "unknowable", "unknowable", "unknowable", "."]
    ds = labelled(tokens, of_words, ["encoder"] * 4 + ["decoder"] * 5)
    assert words(ds) == [(0, 1), (1, 3), (3, 4), (4, 5), (5, 8), (8, 9)]
    twice = labelled(["▁ed", "▁ed", "▁ed"], ["ed"] * 3, ["encoder"] * 3)
    assert words(twice) == [(0, 1), (1, 2), (2, 3)]
    over = labelled(["e", "##d", "##d"], ["edd"] * 3, ["encoder", "encoder", "decoder"])
    assert words(over) == [(0, 2), (2, 3)], "no word reaches into the other text"


def labelled(tokens, of_words, stacks):
    import xarray

    names = {"token": tokens, "word": of_words, "stack": stacks}
    return xarray.Dataset(coords={f"source_{name}": ("source", values) for name, values in names.items()})


def test_pieces_of_the_source_are_added_and_those_of_the_answer_averaged():
    values = np.array([[0.1, 0.2, 0.4], [0.3, 0.4, 0.0]])
    assert by_word(values, [(0, 2)], [(0, 2), (2, 3)]) == pytest.approx(np.array([[0.5, 0.2]]))
    assert by_word(values, [(0, 1), (1, 2)], [(0, 3)]) == pytest.approx(np.array([[0.7], [0.7]]))


def test_alignments_are_by_shares_of_one_sign_best_first(tree):
    assert alignments(tree["cross"].to_dataset())[:3] == ["contribution", "decomposition_share", "attention"]
    name, layer, values = aligned(tree, None, None)
    assert (name, layer) == ("contribution", 2)
    assert values == pytest.approx(tree["cross"].contribution.sel(layer=2).values), "every token is a word here"
    attention = aligned(tree, "attention", 1)[2]
    assert attention == pytest.approx(tree["cross"].attention.sel(layer=1).mean("head").values)
    with pytest.raises(BadInput, match="/cross has no 'effective'; there are: contribution, decomposition_share"):
        aligned(tree, "effective", None)
    with pytest.raises(BadInput, match="There is no layer 3 in /cross; there are: 1, 2"):
        aligned(tree, None, 3)


def test_the_chart_has_the_words_and_their_shares(tree):
    spec = charts.alignment(tree, "attention", 1).to_dict()
    [rows] = spec["datasets"].values()
    expected = tree["cross"].attention.sel(layer=1).mean("head").values
    assert [row["value"] for row in rows] == pytest.approx(expected.ravel())
    sources = [row["source"].split(charts.APART) for row in rows[: expected.shape[1]]]
    assert [source[0] for source in sources] == list(tree["cross"].source_token.values)
    assert [len(source) > 2 for source in sources] == tree["cross"].source_is_special.values.tolist()
    assert len({row["source"] for row in rows}) == expected.shape[1], "equal words stay apart"


def test_the_terminal_has_two_paragraphs_within_its_width(reasons):
    shown = str(picture(reasons, [0, 4], 60, color=False)).split("\n")
    assert all(cell_len(line) <= 60 for line in shown)
    assert shown.count("Source") == shown.count("Answer") == 2
    assert any("layer 4 (decoder 1)" in line for line in shown)
    first = shown[shown.index("Source") + 1 : shown.index("Answer")]
    named = " ".join(first).split()[::2]
    assert named == list(reasons.source_token.values[reasons.source_stack.values == "encoder"])
    assert not any("sink" in line for line in shown), "a source's first token is none"


def test_the_record_says_the_stack_of_every_token_and_layer(reasons):
    from whence.cli.why_json import record

    found = json.loads(json.dumps(record(reasons)))
    assert [one["stack"] for one in found["sources"]] == reasons.source_stack.values.tolist()
    assert found["layer_stacks"] == ["encoder"] * 4 + ["decoder"] * 2
