"""The Dataset: axes, labels, provenance, and what is refused."""

import copy
import importlib.metadata
import json
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray

import whence
from tests.families import build
from tests.tiny import model as tiny
from tests.tiny import tokenizer
from whence.errors import BadInput, Unsupported
from whence.measures.norms.maps import mixing
from whence.measures.registry import MIXED, Measure, Variable, axes, measures, variables
from whence.measures.table import MEASURES
from whence.models.capture import trace
from whence.models.encode import encode
from whence.models.load import loaded
from whence.text.sentence import Mention, Sentence, Word, sentence

TEXT = "Paris is the capital of [MASK]."


@pytest.fixture(scope="module")
def dataset(builtin):
    return whence.measure(builtin, TEXT, ["attention"])


@pytest.fixture(scope="module")
def tiny_model():
    return tiny()


def test_axes_and_labels(dataset):
    assert dataset.attention.dims == ("layer", "head", "target", "source")
    assert dict(dataset.sizes) == {"layer": 6, "head": 12, "target": 9, "source": 9}
    assert dataset.layer.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert dataset["head"].values.tolist() == list(range(12))
    for axis in ("target", "source"):
        assert dataset[f"{axis}_token"].values[6] == "[MASK]"
        assert dataset[f"{axis}_token_id"].values[0] == 101
        assert dataset[f"{axis}_word"].values[1] == "Paris"
        assert dataset[f"{axis}_is_special"].values.tolist() == [True, *[False] * 7, True]


def test_annotations_of_words_are_labels_of_their_pieces(builtin):
    words = (Word(0, 3, {"upos": "DET"}), Word(4, 17, {"upos": "NOUN", "deprel": "root"}), Word(17, 18))
    given = Sentence("The cartographers.", words=words, mentions=(Mention("them", (0, 1)), Mention("one", (1,))))
    found = whence.measure(builtin, given, ["attention"])
    pieces = found.sizes["target"] - 4
    assert pieces > 1
    for axis in ("target", "source"):
        assert found[f"{axis}_upos"].values.tolist() == ["", "DET", *["NOUN"] * pieces, "", ""]
        assert found[f"{axis}_deprel"].values.tolist() == ["", "", *["root"] * pieces, "", ""]
        assert found[f"{axis}_entity"].values.tolist() == ["", "them", *["one|them"] * pieces, "", ""]
        assert f"{axis}_ner" not in found.coords  # nothing is said of it


def test_attention_is_transformers_own(builtin, dataset):
    inputs = builtin.tokenizer(TEXT, return_tensors="pt")
    builtin.model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            theirs = builtin.model(**inputs, output_attentions=True).attentions
    finally:
        builtin.model.set_attn_implementation("sdpa")
    np.testing.assert_allclose(dataset.attention.values, torch.stack(theirs)[:, 0].numpy(), atol=1e-6)


def test_provenance(dataset):
    attributes = dataset.attrs
    assert attributes["model"] == "whence/builtin" and attributes["family"] == "bert"
    assert attributes["text"] == TEXT and attributes["measures"] == "attention"
    assert attributes["schema"] == 2 and attributes["torch_version"] == torch.__version__
    assert json.loads(attributes["parameters"]) == {}


def test_it_survives_a_file(dataset, tmp_path):
    dataset.to_netcdf(tmp_path / "result.nc")
    with xarray.open_dataset(tmp_path / "result.nc") as found:
        xarray.testing.assert_identical(found.load(), dataset)


def test_a_model_in_float64(builtin, dataset):
    double = whence.load(copy.deepcopy(builtin.model).double(), builtin.tokenizer)
    found = whence.measure(double, TEXT, ["attention", "effective", "null", "norms", "rollout", "contribution"])
    assert {str(values.dtype) for values in found.data_vars.values()} == {"float64"}
    for shares in (found.attention, found.norms.sel(analysis="attn_w"), found.rollout, found.contribution):
        assert abs(shares.sum("source") - 1).max() < 1e-12, shares.name  # float32 is off by 1e-7
    assert abs(found.effective + found.null - found.attention).max() < 1e-12
    assert dataset.attention.dtype == np.float32
    np.testing.assert_allclose(found.attention, dataset.attention, atol=1e-5)


def test_half_precision_is_given_in_float32(builtin):
    half = whence.load(copy.deepcopy(builtin.model).bfloat16(), builtin.tokenizer)
    assert whence.measure(half, TEXT, ["mixing"]).mixing.dtype == np.float32


def test_a_decoder(smollm2):
    found = whence.measure(smollm2, "The cat sat on the mat.", ["attention"])
    assert found.attrs["causal"] == 1
    assert np.triu(found.attention.values, k=1).max() == 0
    np.testing.assert_allclose(found.attention.sum("source"), 1, atol=1e-5)


def test_chosen_layers(builtin, dataset):
    some = whence.measure(builtin, TEXT, "attention", layers=[5, 2])
    xarray.testing.assert_equal(some.attention, dataset.attention.sel(layer=[2, 5]))
    one = whence.measure(builtin, TEXT, "attention", layers=5)
    xarray.testing.assert_equal(one.attention, dataset.attention.sel(layer=[5]))


@pytest.mark.parametrize("name", ["norms", "effective", "alti", "rollout", "block"])
def test_chosen_layers_of_other_measures(tiny_model, name):
    """The pass ends past the attention of the last of them, which changes nothing that is measured."""
    text = "ada bo cy dee ada ."
    whole, some = whence.measure(tiny_model, text, name), whence.measure(tiny_model, text, name, layers=[1])
    for variable in whole.data_vars:
        xarray.testing.assert_equal(some[variable], whole[variable].sel(layer=[1]))


def test_a_call_pays_once_for_what_does_not_change(tiny_model, monkeypatch):
    """Of a model that is known: no file of a package is read, and the modules are walked to check and to borrow it."""
    whence.measure(tiny_model, "ada bo .", "norms")
    walked, read, modules = [], [], torch.nn.Module.modules

    def counted(self):
        for module in modules(self):
            walked.append(module)
            yield module

    monkeypatch.setattr(torch.nn.Module, "modules", counted)
    monkeypatch.setattr(importlib.metadata, "distribution", read.append)
    whence.measure(tiny_model, "ada bo .", "norms")
    assert walked.count(tiny_model.model.get_output_embeddings()) <= 3
    assert not read


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"measures": ["nonsense"]}, "no measure 'nonsense'; there are: alti, attention"),
        ({"measures": []}, "No measure"),
        ({"layers": [7]}, "layers 1 to 6, and 7"),
        ({"layers": []}, "layers 1 to 6"),
        ({"targets": [9]}, "targets 0 to 8, and 9"),
        ({"targets": []}, "targets 0 to 8, and none"),
        ({"memory_limit": 10_000}, "9 tokens need .* kB .* and 10 kB may be used.*shorten the text"),
    ],
)
def test_refused(builtin, arguments, says):
    with pytest.raises(BadInput, match=says):
        whence.measure(builtin, TEXT, **({"measures": ["attention"]} | arguments))


def test_memory_is_announced_before_it_is_taken(builtin, caplog, monkeypatch):
    monkeypatch.setattr("whence.sentence.measure.LARGE", 1_000_000)
    whence.measure(builtin, "word " * 200, "attention")
    assert "202 tokens will take about" in caplog.text


def test_progress_counts_layers(builtin):
    seen = []
    whence.measure(builtin, TEXT, ["alti", "block"], progress=lambda done, of: seen.append((done, of)))
    assert seen == [(step, 12) for step in range(1, 13)]


# the expansion rate looks at the weights alone and is there at once
@pytest.mark.parametrize("name", [name for name in MEASURES if name != "expansion"])
def test_every_measure_can_be_stopped_on_its_way(builtin, name):
    def stop(done, of):
        raise Stopped

    with pytest.raises(Stopped):
        whence.measure(builtin, "Paris is big.", name, progress=stop)
    assert builtin.model.config._attn_implementation == "sdpa"  # and the model is as it was


class Stopped(Exception):
    pass


def test_what_a_family_cannot_give_is_refused():
    from whence.measures.registry import chosen

    assert set(chosen("attention", frozenset({"attention"}), "odd")[0]) == {"attention"}
    with pytest.raises(Unsupported, match=r"'attention' needs attention.*'odd'"):
        chosen("attention", frozenset(), "odd")


def test_tables(builtin):
    table = whence.list_measures()
    assert {"measure", "variable", "dims", "unit", "needs", "papers"} <= set(table.columns)
    checks = whence.verify(builtin)
    assert checks.passed.all() and (checks.error <= checks.limit).all()


def test_citations(dataset):
    found = whence.cite(dataset)
    assert "vaswani2017attention" in found and "@software{whence" in found


def test_every_measure_has_its_papers():
    from whence.citations import PAPERS

    assert {paper for row in measures().values() for paper in row.papers} <= set(PAPERS)


def test_no_verb_has_the_name_of_a_module():
    """Importing a module binds its name in the package, where it would take the verb's place."""
    folder = Path(whence.__file__).parent
    modules = {path.stem for path in folder.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert not modules & set(whence._VERBS)


def test_what_the_package_offers():
    assert all(callable(getattr(whence, verb)) for verb in whence._VERBS)
    assert whence.stats.contrasts and whence.plot.style and whence.__version__
    written = Path(whence.__file__).read_text(encoding="utf-8")
    assert all(f"import {name} as {name}\n" in written for name in whence.__all__), "editors see what is there"
    with pytest.raises(AttributeError, match="its verbs are"):
        _ = whence.nonsense


def test_a_training_model_is_measured_without_dropout():
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 4, "b": 5, "c": 6}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    inner = build("bert", hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5).train()
    model = whence.load(inner, PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]"))
    first, second = (whence.measure(model, "a b c b a", "attention") for _ in range(2))
    xarray.testing.assert_identical(first, second)


def test_a_tokenizer_of_another_model(builtin):
    """A forgotten resize_token_embeddings is said, not an index out of range."""
    other = whence.load(build("bert"), builtin.tokenizer)
    with pytest.raises(BadInput, match="the model has 97, counted from 0"):
        whence.measure(other, TEXT)


def test_what_is_not_a_model(builtin):
    with pytest.raises(BadInput, match=r"what whence\.load gives, and BertForMaskedLM was given"):
        loaded(builtin.model)
    assert loaded(builtin) is builtin


@pytest.mark.parametrize("given", [5, xarray.Dataset()])
def test_what_says_nothing_of_measures_is_not_cited(given):
    with pytest.raises(BadInput, match="What was measured is in the attributes"):
        whence.cite(given)


@pytest.mark.parametrize("error", [2.0, 0.0, -0.05, float("nan")])
@pytest.mark.parametrize("options", [whence.Contribution, whence.Block])
def test_the_error_is_a_share(options, error):
    with pytest.raises(BadInput, match=f"The error is a number between 0 and 1, and {error!r} was given"):
        options(error=error)


@pytest.mark.parametrize("tolerance", [-1e-6, float("nan"), 1.0])
def test_the_tolerance_is_a_share_or_zero(tolerance):
    with pytest.raises(BadInput, match=f"The tolerance is a number from 0 to less than 1, and {tolerance!r}"):
        whence.ValueRank(tolerance=tolerance)
    assert whence.ValueRank(tolerance=0.0).tolerance == 0


def test_each_measure_has_its_own_options(tiny_model):
    """One sketched, one exact, in one call; each as if asked alone."""
    text, asked = "ada bo cy dee .", [whence.Contribution(mode="exact"), whence.Jacobian(mode="sketch", error=0.2)]
    found = whence.measure(tiny_model, text, asked)
    assert not found.contribution_se.any() and found.jacobian_se.any()
    assert found.contribution.attrs["probes"] == tiny_model.anatomy.width > found.jacobian.attrs["probes"]
    for one, name in zip(asked, ("contribution", "jacobian"), strict=True):
        xarray.testing.assert_identical(whence.measure(tiny_model, text, one)[name], found[name])
    assert json.loads(found.attrs["parameters"])["jacobian"]["error"] == 0.2


def test_some_targets_are_rows_of_all(tiny_model):
    text = "ada bo cy dee ."
    names = ["attention", "mixing", "norms", "rollout", "jacobian_local", "gradient", whence.Contribution(mode="exact")]
    whole, some = (whence.measure(tiny_model, text, names, targets=rows) for rows in (None, [4, -1]))
    assert some.target.values.tolist() == [4, 6] and some.target_token.values.tolist() == ["dee", "[SEP]"]
    for name, values in whole.sel(target=[4, 6]).items():
        np.testing.assert_allclose(some[name], values, rtol=1e-5, atol=1e-6, err_msg=str(name))
        assert some[name].dims == values.dims


def test_an_axis_that_nobody_knows_is_refused_by_name(builtin, monkeypatch):
    variable = Variable(("layer", "colour"), "share", "x", frozenset())
    monkeypatch.setitem(MEASURES, "hue", Measure("x", {"hue": variable}, (), "whence.measures.norms.variables:norms"))
    with pytest.raises(Unsupported, match=r"'hue' has the axis 'colour'.* distance, head, largest, layer"):
        whence.measure(builtin, "", "hue")


def test_every_axis_of_the_table_is_known_and_used():
    """One axis is that of the largest sources, which a map has where top= is given."""
    assert {axis for variable in variables().values() for axis in variable.dims} == axes().keys() - {"largest"}


def test_mixing_by_norms_needs_no_rows_of_one():
    """gpt-oss lets a part of the attention go nowhere: the ratios of vectors are there, those of weights are NaN."""
    model = whence.load(build("gpt_oss"), tokenizer())
    found = whence.measure(model, "ada bo cy dee", ["mixing"]).mixing.transpose("layer", "analysis", "target")
    by_weights = np.array([analysis.endswith("_w") for analysis in MIXED])
    assert np.isnan(found.values[:, by_weights]).all()
    seen = trace(model.anatomy, encode(model.anatomy, model.tokenizer, sentence("ada bo cy dee")).batch)
    expected = [mixing(block, seen.batch.mask)[0, ~by_weights] for block in seen.blocks]
    np.testing.assert_allclose(found.values[:, ~by_weights], torch.stack(expected), atol=1e-5)
    with pytest.raises(Unsupported, match="'attn_w' needs rows"):
        whence.measure(model, "ada bo", ["attn_w"])
