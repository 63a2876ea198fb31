"""Every row of the table can be asked for, and gives what it says."""

import numpy as np
import pytest
import xarray
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

import whence
from tests.families import batch, scatter
from whence.errors import BadInput, Unsupported
from whence.measures.registry import ANALYSES, MIXED, Settings, variables
from whence.measures.table import MEASURES

SHORT = "Paris is the capital of [MASK]."
CHEAP = [name for name in MEASURES if name != "minimum_simplex"]


@pytest.fixture(scope="module")
def odd():
    """A family that the table of families does not have: attention and values, no norms."""
    config = AutoConfig.for_model("ctrl", vocab_size=97, n_embd=64, n_layer=3, n_head=4, dff=80)
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 4, "b": 5, "c": 6}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    return whence.load(scatter(AutoModelForCausalLM.from_config(config)).eval(), tokenizer)


@pytest.fixture(scope="module")
def everything(builtin):
    return whence.measure(builtin, SHORT, CHEAP)


@pytest.mark.parametrize("name", [name for measure in CHEAP for name in MEASURES[measure].variables])
def test_every_variable_has_its_axes_and_is_finite(everything, name):
    found, variable = everything, variables()[name]
    if variable.analysis is None:
        found = found[name]
        assert found.dims == variable.dims and found.attrs["units"] == variable.unit
    else:
        whole, analysis = variable.analysis
        assert found[whole].dims == ("analysis", *variable.dims) and variable.unit in found[whole].attrs["units"]
        found = found[whole].sel(analysis=analysis)
    if name == "mixing":  # there is no ratio of the analyses that only `rollout` has
        found = found.sel(analysis=[*MIXED, "block_n"])
    present = found.values[~np.isnan(found.values)] if name == "by_neighbour" else found.values  # no neighbour: NaN
    assert np.isfinite(present).all()
    assert np.abs(present).max() > 0 or name.startswith("null")  # nine tokens have no null space here


def test_the_smallest_distribution(builtin):
    found = whence.measure(builtin, SHORT, ["attention", "minimum_simplex"], layers=[1])
    np.testing.assert_allclose(found.minimum_simplex.sum("source"), 1, atol=1e-5)
    np.testing.assert_allclose(found.minimum_simplex, found.attention, atol=1e-4)  # 9 tokens, head width 32: no choice


def test_shares_sum_to_one(everything):
    weights = everything.norms.sel(analysis=["attn_w", "attnres_w"])
    for found in (everything.attention, everything.alti, everything.value_zeroing, weights, everything.rollout):
        np.testing.assert_allclose(found.sum("source"), 1, atol=1e-4, err_msg=str(found.name))


def test_one_variable_alone_is_what_it_is_in_company(builtin, everything):
    for name, variable in (("attn_n", "norms"), ("mixing",) * 2, ("null",) * 2, ("rollout_attnres_n", "rollout")):
        alone = whence.measure(builtin, SHORT, name)
        assert list(alone.data_vars) == [variable]
        same = everything.sel(analysis=alone.analysis) if "analysis" in alone.dims else everything
        np.testing.assert_allclose(alone[variable].values, same[variable].values, atol=1e-6)


def test_an_analysis_that_was_not_asked_for_is_empty(builtin):
    found = whence.measure(builtin, SHORT, ["mixing", "attn_n", "block_n"])
    assert tuple(found.analysis.values) == (*MIXED, "block_n")
    there = found.norms.notnull().all(["layer", "target", "source"])
    assert found.analysis.values[there].tolist() == ["attn_n", "block_n"]
    assert found.analysis.values[found.mixing.isnull().all(["layer", "target"])].tolist() == ["block_n"]


def test_the_whole_block_is_the_sixth_analysis_when_it_is_asked_for(builtin, everything):
    six = [*MIXED, "block_n"]
    for name in ("norms", "mixing"):
        found = whence.measure(builtin, SHORT, [name, "block"])[name]
        assert found.analysis.values.tolist() == six and bool(found.notnull().all())
        assert whence.measure(builtin, SHORT, name).analysis.values.tolist() == list(MIXED)
        np.testing.assert_allclose(found, everything[name].sel(analysis=six), atol=1e-6)
    alone = whence.measure(builtin, SHORT, "mixing_block_n", targets=[2])
    assert list(alone.data_vars) == ["mixing"] and alone.mixing.attrs["units"] == "share"
    np.testing.assert_allclose(alone.mixing[0, :, 0], everything.mixing.sel(analysis="block_n", target=2), atol=1e-6)


def test_rolled_out_maps_of_chosen_layers_start_at_the_first(builtin, everything):
    some = whence.measure(builtin, SHORT, "rollout_attn_w", layers=[6])
    xarray.testing.assert_allclose(some.rollout, everything.rollout.sel(layer=[6], analysis=["attn_w"]), atol=1e-6)


def test_analyses_are_named(everything):
    assert tuple(everything["analysis"].values) == ANALYSES
    own = np.diagonal(everything.norms.sel(analysis="attn_w"), axis1=1, axis2=2)
    np.testing.assert_allclose(everything.mixing.sel(analysis="attn_w"), 1 - own, atol=1e-5)


def test_a_sketch_is_near_and_seeded(builtin, everything):
    first, again, other = (
        whence.measure(builtin, SHORT, whence.Block(error=0.1, seed=seed)).norms for seed in (1, 1, 2)
    )
    xarray.testing.assert_identical(first, again)
    assert not first.equals(other)
    assert abs(first / everything.norms.sel(analysis=["block_n"]) - 1).mean() < 0.2


def test_layers_are_counted_from_one_and_places_from_zero(builtin):
    assert Settings(builtin.anatomy, batch([9])).places == [0, 1, 2, 3, 4, 5]
    assert Settings(builtin.anatomy, batch([9]), layers=(2, 6)).places == [1, 5]


def test_nothing_flows_from_the_future(smollm2):
    names = ["attention", "effective", "norms", "block_n"]
    found = whence.measure(smollm2, "The cat sat on the mat.", names, layers=[1, 30])
    assert {"attention", "effective", "norms"} <= set(found.data_vars)
    for name in found.data_vars:
        assert found[name].dims[-2:] == ("target", "source")
        assert np.abs(np.triu(found[name].values, k=1)).max() == 0, name


def test_a_family_outside_the_table_gives_what_it_can(odd):
    found = whence.measure(odd, "a b c a", ["attention", "effective", "null", "value_rank", "attn_w"])
    assert np.isfinite(found.effective.values).all()
    with pytest.raises(Unsupported, match=r"'mixing' needs norms.*'ctrl'"):
        whence.measure(odd, "a b c", ["mixing"])
    with pytest.raises(Unsupported, match=r"'attn_n' needs norms.* of 'norms' ask for attn_w, attnres_w\."):
        whence.measure(odd, "a b c", ["norms"])


def test_another_attention_that_does_the_same(builtin):
    text = "The old man who fed the hungry pigeons every morning was tired, and nobody who lived near the station knew"
    text += " where he had come from or why he never spoke to anyone."
    found = whence.alternative_attention(builtin, text, 2, 3)
    np.testing.assert_allclose(found.alternative.sum("source"), 1, atol=1e-5)
    assert float(found.alternative.min()) >= 0
    assert found.attrs["change"] > 100 * found.attrs["logits_difference"]
    assert found.attrs["logits_difference"] < 1e-4
    for layer, head, says in ((7, 0, "no layer 7"), (1, 12, "no head 12")):
        with pytest.raises(BadInput, match=says):
            whence.alternative_attention(builtin, text, layer, head)
    with pytest.raises(Unsupported, match="longer text"):
        whence.alternative_attention(builtin, "Too short.", 1, 0)
