"""The verb: what the paper found, on pairs of our own, decoders, provenance, saved probes, bad input."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray
from safetensors import safe_open
from safetensors.torch import save_file

import whence
from whence.corpus.hidden_states import states_of
from whence.errors import BadInput
from whence.identity import experiment
from whence.sealed import sealed
from whence.text.sentence import Sentence, Word

TEXTS = [
    f"The {animal} saw the {thing} near the {place}."
    for animal in ("cat", "dog", "old owl")
    for thing in ("moon", "red car")
    for place in ("sea", "old mill")
]


@pytest.fixture(scope="module")
def rates(builtin, pairs, cache):
    """rates(**options): three folds on the slice, computed once per set of options."""
    return remembered(builtin, pairs, cache)


@pytest.fixture(scope="module")
def published(builtin, mrpc, cache):
    """The same on the paper's corpus, for what our pairs, which are all built alike, are too easy to show."""
    return remembered(builtin, mrpc, cache)


def remembered(model, corpus, cache):
    known = {}

    def compute(**options):
        name = str(sorted(options.items()))
        if name not in known:
            known[name] = whence.identify(model, corpus, folds=3, cache=cache, **options)
        return known[name]

    return compute


def by_layer(dataset):
    return dataset.rate.mean("fold").to_series()


def test_naive_falls_with_depth(rates):
    for loss in ("cosine", "l2"):
        found = by_layer(rates(probe="naive", loss=loss))
        assert found[1] > 0.99 and found[6] < found[4] - 0.1


def test_linear_cosine_stays_high_and_above_l2(published):
    cosine, l2, naive = (by_layer(published(**options)) for options in ({}, {"loss": "l2"}, {"probe": "naive"}))
    assert cosine.min() > 0.9 and cosine[6] > l2[6] + 0.02 and cosine[6] > naive[6] + 0.1
    assert (cosine >= l2 - 0.002).all()


def test_late_to_early_beats_early_to_late(rates):
    found = rates(test_layers=[1, 6]).transfer.mean("fold")
    assert found.dims == ("trained_on", "tested_on") and found.sizes == {"trained_on": 6, "tested_on": 2}
    assert found.sel(trained_on=6, tested_on=1) > found.sel(trained_on=1, tested_on=6) + 0.05
    own = rates(test_layers=[1, 6]).rate.mean("fold")
    assert np.allclose(found.sel(trained_on=6, tested_on=6), own.sel(layer=6))


@pytest.mark.parametrize("offset", [-1, 2])
def test_neighbours_are_recovered_far_less(published, offset):
    found = published(offset=offset, layers=[6])
    assert by_layer(found)[6] < by_layer(published())[6] - 0.3
    assert by_layer(found)[6] > float(found.chance.mean())


def test_one_layer_back_is_easier_than_all_the_way(rates):
    back = by_layer(rates(probe="naive", target="previous"))
    assert (back >= by_layer(rates(probe="naive")) - 1e-9).all() and back[6] > 0.9


def test_network(rates):
    """42 training sentences are few for a million weights; the linear probe is not out of reach."""
    assert by_layer(rates(probe="mlp", layers=[6]))[6] > by_layer(rates())[6] - 0.03


def test_less_training_data_finds_less(rates):
    few, all_ = (by_layer(rates(layers=[6], train_share=share))[6] for share in (0.2, 1.0))
    assert few < all_ - 0.01


def test_rates_are_what_they_say(rates):
    found = rates()
    assert found.rate.dims == ("layer", "fold") and found.fold.values.tolist() == [1, 2, 3]
    assert ((found.rate >= 0) & (found.rate <= found.type_rate + 1e-9) & (found.type_rate <= 1)).all()
    assert float(found.train_rate.mean()) > float(found.rate.mean())
    assert float(found.chance.mean()) == pytest.approx(found.attrs["sentences"] / found.attrs["tokens"], rel=0.05)


def test_provenance(rates, builtin):
    about = rates().attrs
    assert about["model"] == builtin.id and about["probe"] == "linear" and about["solver"] == "fast"
    assert about["sentences"] == 60 and about["tokens"] > 2000 and about["corpus"] == "pairs"
    assert {"torch_version", "weights_sha256", "corpus_sha256", "parameters", "schema", "seed"} <= set(about)


def test_survives_a_file(rates, tmp_path):
    rates(test_layers=[1, 6]).to_netcdf(tmp_path / "rates.nc")
    xarray.testing.assert_identical(xarray.load_dataset(tmp_path / "rates.nc"), rates(test_layers=[1, 6]))


def test_fast_is_as_good_as_adam(builtin, pairs, cache):
    """Same folds; a larger learning rate than published keeps the test short, the benchmark uses the published one."""
    options = {"layers": [6], "folds": 1, "cache": cache}
    fast = whence.identify(builtin, pairs, **options)
    adam = whence.identify(builtin, pairs, solver="adam", learning_rate=3e-3, **options)
    assert fast.rate.item() > adam.rate.item() - 0.005 and adam.rate.item() > 0.85
    assert adam.epochs.item() > 20


def test_tokens_carry_what_is_known_of_them(llama, cache):
    """Part of speech from the corpus, the mean over tokens is the rate."""
    words = (Word(0, 3, {"upos": "DET"}), Word(4, 10, {"upos": "NOUN"}))
    corpus = [Sentence("The kitten sleeps.", words=words), *TEXTS]
    found = whence.identify(llama, corpus, "naive", folds=10, layers=[0, 2], tokens=True, cache=cache)
    assert found.found.dims == ("layer", "place") and {"token", "word", "upos", "is_special"} <= set(found.coords)
    first = found.sel(place=found.sentence == 0)
    labels = dict(zip(first.token.values.tolist(), first.upos.values.tolist(), strict=True))
    assert labels["the"] == "DET" and labels["kitten"] == "NOUN" and labels["[CLS]"] == ""
    assert first.word.values[1:4].tolist() == ["The", "kitten", "sleeps"]
    table = found.found.sel(layer=2).groupby("upos").mean()
    assert set(table.upos.values) == {"", "DET", "NOUN"}
    weights = found.found.weighted(found.tested)
    sizes = [len(fold) for fold in np.split(np.arange(10), 10)]
    assert len(sizes) == found.sizes["fold"]
    # every fold's rate is a mean over its tokens; together they are the mean over tests
    results = float(weights.mean("place").sel(layer=2))
    assert results == pytest.approx(float(found.rate.sel(layer=2).mean()), abs=0.05)


def test_decoders_without_positions_tie_on_repeated_tokens(llama, cache):
    """Layer 0 of a repeated token is the same vector: its position is a guess among them, its type is certain."""
    found = whence.identify(llama, TEXTS, "naive", folds=1, layers=[0], tokens=True, cache=cache)
    states = states_of(llama, TEXTS, cache=cache)
    for number, place in zip(found.sentence.values, found.place.values, strict=True):
        ids = states.ids[states.starts[number] : states.starts[number] + states.lengths[number]]
        share = 1 / int((ids == states.ids[place]).sum())
        assert float(found.found.sel(layer=0, place=place)) == pytest.approx(share)
    assert found.rate.item() < 1 and found.type_rate.item() == 1


def test_absolute_positions_break_the_ties(builtin, cache):
    found = whence.identify(builtin, TEXTS, "naive", folds=1, layers=[0], cache=cache)
    assert found.rate.item() == 1


@pytest.mark.slow
def test_a_real_decoder(smollm2, sample, cache):
    corpus = whence.read(f"mrpc:{sample / 'pairs.tsv'}", limit=24)
    naive, linear = (
        whence.identify(smollm2, corpus, probe, folds=1, layers=[1, 15, 29], cache=cache)
        for probe in ("naive", "linear")
    )
    assert (linear.type_rate.sel(layer=[15, 29]) > naive.type_rate.sel(layer=[15, 29])).all()
    assert linear.type_rate.sel(layer=29).item() > 5 * linear.chance.item()
    assert (naive.rate < naive.type_rate).all()  # repeated tokens are told apart by context alone


def test_saved_probes_give_the_same_answers(builtin, pairs, cache, tmp_path):
    path = tmp_path / "probes.safetensors"
    options = {"cache": cache, "layers": [2, 6], "tokens": True}
    fitted = whence.identify(builtin, pairs, folds=1, save=path, test_layers=[6], **options)
    applied = whence.identify(builtin, pairs, path, test_layers=[6], **options)
    both = applied.sel(place=fitted.place)
    assert np.array_equal(both.found, fitted.found) and np.array_equal(both.answer, fitted.answer)
    assert applied.sizes["place"] == applied.attrs["tokens"] > fitted.sizes["place"]
    assert np.isnan(applied.train_rate).all() and applied.attrs["probe"] == "linear"
    new = whence.identify(builtin, ["Something that was never seen before, by anyone."], path, cache=cache)
    assert new.layer.values.tolist() == [2, 6] and new.rate.sel(layer=2).item() == 1


def test_finished_folds_are_not_fitted_again(builtin, pairs, cache, monkeypatch):
    options = {"folds": 4, "layers": [3], "seed": 7, "cache": cache}
    whole = whence.identify(builtin, pairs, **options)
    real, tested = experiment.tested, []

    def interrupted(settings, states, layer, fold, fitted):
        if len(tested) == 2:
            raise KeyboardInterrupt
        tested.append(fold.number)
        return real(settings, states, layer, fold, fitted)

    monkeypatch.setattr(experiment, "tested", interrupted)
    with pytest.raises(KeyboardInterrupt):
        whence.identify(builtin, pairs, **options)
    seen = []
    monkeypatch.setattr(experiment, "tested", lambda *given: seen.append(given[3].number) or real(*given))
    resumed = whence.identify(builtin, pairs, **options)
    assert tested == [1, 2] and seen == [3, 4]
    xarray.testing.assert_allclose(resumed, whole)


def test_progress_reaches_the_end(llama, cache):
    seen = []
    whence.identify(llama, TEXTS, "naive", folds=2, cache=cache, progress=lambda *given: seen.append(given))
    assert seen[-1] == (6, 6) and seen[-6:] == [(done, 6) for done in range(1, 7)]


def test_a_generator_is_a_corpus(llama, cache):
    found = whence.identify(llama, (text for text in TEXTS), "naive", folds=1, tokens=True, cache=cache)
    assert found.attrs["sentences"] == len(TEXTS)


@pytest.mark.parametrize(
    ("corpus", "options", "says"),
    [
        (TEXTS[:5], {}, "10 folds need at least 10 sentences, and the corpus has 5"),
        ([], {"folds": 1}, "the corpus has 0"),
        (TEXTS, {"layers": [4]}, "layers 0 to 3, and 4"),
        (TEXTS, {"layers": []}, "none was asked for"),
        (TEXTS, {"test_layers": [-1]}, "layers 0 to 3, and -1"),
        (TEXTS, {"probe": "forest"}, "no probe 'forest'"),
        (TEXTS, {"probe": "nowhere.safetensors"}, "no file"),
        (TEXTS, {"loss": "hinge"}, "no loss 'hinge'"),
        (TEXTS, {"solver": "sgd"}, "no solver"),
        (TEXTS, {"target": "next"}, "no target"),
        (TEXTS, {"embeddings": "mean"}, "no embeddings"),
        (TEXTS, {"offset": 40}, "leaves nothing to find in the shortest sentence, which has"),
        ("one text", {}, "the str"),
        ([*TEXTS, ""], {}, "empty"),
        ([*TEXTS, 3], {}, "a str, and int"),
        (["word " * 600, *TEXTS], {}, "at most"),
    ],
)
def test_bad_input_gets_one_sentence(llama, cache, corpus, options, says):
    with pytest.raises(BadInput, match=says):
        whence.identify(llama, corpus, **({"cache": cache} | options))


def test_probes_of_another_width_are_refused(builtin, llama, cache, tmp_path):
    path = tmp_path / "probes.safetensors"
    whence.identify(llama, TEXTS, folds=1, layers=[1], save=path, cache=cache)
    with pytest.raises(BadInput, match="vectors of 64 numbers"):
        whence.identify(builtin, TEXTS, path, cache=cache)
    with pytest.raises(BadInput, match="no probe for layer 3"):
        whence.identify(llama, TEXTS, path, layers=[3], cache=cache)
    (tmp_path / "broken.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(BadInput, match=r"no safetensors file .* write the probes again"):
        whence.identify(llama, TEXTS, tmp_path / "broken.safetensors", cache=cache)


# Files of ours that are not as we wrote them


def rewritten(path, change):
    """The same file, its description changed and sealed again."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
        about = json.loads(file.metadata()["whence"])
    found = change({name: value for name, value in about.items() if name != "seal"})
    text = sealed(found).decode() if isinstance(found, dict) else found
    save_file(tensors, path, metadata={"whence": text})


@pytest.fixture(scope="module")
def probes(llama, cache, tmp_path_factory):
    path = tmp_path_factory.mktemp("probes") / "good.safetensors"
    whence.identify(llama, TEXTS, folds=1, layers=[1], save=path, cache=cache)
    return path


def without(name):
    return lambda about: {key: value for key, value in about.items() if key != name}


def setting(name, value):
    return lambda about: {**about, "settings": {**about["settings"], name: value}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda about: "[1]", "it holds a list, and a JSON object was expected"),
        (lambda about: "{", "it is not JSON"),
        (lambda about: "{}", "changed after it was written"),
        (without("width"), "it has no width"),
        (without("settings"), "it has no settings"),
        (lambda about: {**about, "width": "16"}, "width is '16', and a count was expected"),
        (lambda about: {**about, "settings": []}, "settings is [], and an object was expected"),
        (lambda about: {**about, "fitted": [1]}, "fitted is 1, and a list was expected"),
        (lambda about: {**about, "fitted": [[1, 1, 1]]}, "of another version of whence"),
        (lambda about: {**about, "kind": "run"}, "something else than probes"),
        (setting("probe", "quadratic"), "of another version of whence"),
        (setting("temperature", 1), "of another version of whence"),
        (setting("offset", 1.5), "settings offset is 1.5, and int was expected"),
        (lambda about: {**about, "tensors": {**about["tensors"], "layer_001.fold_01.more": ""}}, "has no tensor"),
    ],
)
def test_a_file_that_is_not_of_probes(llama, cache, probes, tmp_path, change, said):
    path = Path(shutil.copy(probes, tmp_path / "other.safetensors"))
    rewritten(path, change)
    with pytest.raises(BadInput) as error:
        whence.identify(llama, TEXTS, path, cache=cache)
    assert said in str(error.value) and str(error.value).endswith("; write the probes again with --save.")
    assert "\n" not in str(error.value)


def test_one_bit_of_a_file_of_probes(llama, cache, probes, tmp_path):
    data = probes.read_bytes()
    chance = random.Random(0)
    path = tmp_path / "flipped.safetensors"
    expected = whence.identify(llama, TEXTS, probes, cache=cache)
    for _ in range(40):
        flipped = bytearray(data)
        flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            found = whence.identify(llama, TEXTS, path, cache=cache)
        except BadInput:
            continue
        xarray.testing.assert_identical(found, expected)  # white space of the header, say


def test_probes_that_have_no_weights_are_applied(llama, cache, tmp_path):
    path = tmp_path / "naive.safetensors"
    fitted = whence.identify(llama, TEXTS, "naive", folds=1, save=path, cache=cache)
    applied = whence.identify(llama, TEXTS, path, cache=cache)
    assert applied.layer.values.tolist() == fitted.layer.values.tolist()


@pytest.mark.parametrize("damage", ["flipped", "cut", "another", "not ours"])
def test_a_damaged_fold_is_fitted_again(llama, cache, monkeypatch, caplog, damage):
    options = {"folds": 2, "layers": [1, 2], "seed": 5, "cache": cache}
    whole = whence.identify(llama, TEXTS, **options)
    kept = []
    with monkeypatch.context() as patch:
        patch.setattr(experiment.shutil, "rmtree", lambda folder, ignore_errors: kept.append(folder))
        whence.identify(llama, TEXTS, **options)
    one, other = sorted(kept[0].iterdir())[:2]
    data = one.read_bytes()
    wrong = {"flipped": data[:-1] + bytes([data[-1] ^ 1]), "cut": data[:-9], "another": other.read_bytes()}
    one.write_bytes(wrong[damage]) if damage in wrong else save_file({}, one)
    again = []
    real = experiment.tested
    monkeypatch.setattr(experiment, "tested", lambda *given: again.append(given[2:4]) or real(*given))
    xarray.testing.assert_allclose(whence.identify(llama, TEXTS, **options), whole)
    assert [(layer, fold.number) for layer, fold in again] == [(1, 1)]
    assert "it is computed again" in caplog.text
