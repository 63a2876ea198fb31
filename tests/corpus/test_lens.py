"""A fitted lens: the mean over texts with its standard errors, resumed, stopped in time, saved, published ones read."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import whence
from tests import tiny
from whence.corpus import lens as fits
from whence.errors import BadInput
from whence.measures.flow.prediction import logits
from whence.measures.lens.jacobian import jacobians
from whence.measures.lens.tuned import tuned
from whence.models.encode import encode
from whence.text.sentence import sentence

TEXTS = tiny.texts(8, seed=3)


@pytest.fixture(scope="module")
def model():
    return tiny.model()


@pytest.fixture(scope="module")
def lens(model):
    return whence.lens(model, TEXTS)


def of_each(model, layers):
    batches = [encode(model.anatomy, model.tokenizer, sentence(text)).batch for text in TEXTS]
    return torch.stack([jacobians(model.anatomy, each, 0, layers) for each in batches]).numpy()


def test_the_mean_over_texts_and_its_standard_error(model, lens):
    each = of_each(model, list(lens.layers))
    np.testing.assert_allclose(lens.matrices, each.mean(axis=0), atol=1e-6)
    expected = each.std(axis=0, ddof=1) / math.sqrt(len(each))
    np.testing.assert_allclose(lens.standard_errors, expected, atol=1e-6)
    assert lens.matrices.dims == ("layer", "output", "input") and lens.texts == (1,) * 8
    assert (lens.matrices.sel(layer=3).values == np.eye(lens.width)).all()


def test_the_error_is_that_of_vectors_that_are_read(model, lens):
    each, states = of_each(model, list(lens.layers)), []
    for text in TEXTS:
        batch = encode(model.anatomy, model.tokenizer, sentence(text)).batch
        with torch.no_grad():
            states.append(torch.stack(model.model(batch.ids, output_hidden_states=True).hidden_states)[:, 0])
    states = torch.cat(states, dim=1).numpy()
    read = np.einsum("glij,lnj->glni", each, states)
    variance = read.var(axis=0, ddof=1).sum(axis=(1, 2)) / len(each)
    expected = np.sqrt(variance / (read.mean(axis=0) ** 2).sum(axis=(1, 2)))
    np.testing.assert_allclose(lens.error, expected, rtol=1e-4, atol=1e-6)


def test_a_fit_resumes_and_goes_on(model, lens, tmp_path, monkeypatch):
    done = []
    measure = fits._Worker.measure

    def counted(self, prepared):
        done.append(prepared.part.number)
        if len(done) == 4:
            raise KeyboardInterrupt
        return measure(self, prepared)

    monkeypatch.setattr(fits._Worker, "measure", counted)
    with pytest.raises(KeyboardInterrupt):
        whence.lens(model, TEXTS, out=tmp_path / "fit")
    monkeypatch.setattr(fits._Worker, "measure", measure)
    resumed = whence.lens(model, TEXTS[:5], out=tmp_path / "fit", texts=5, part_size=1)
    assert sum(resumed.texts) == 5
    further = whence.lens(model, TEXTS, out=tmp_path / "fit")
    assert torch.equal(further.groups, lens.groups)
    opened = whence.load_lens(tmp_path / "fit", model)
    assert torch.equal(opened.groups, lens.groups) and opened.error == pytest.approx(lens.error)


def test_it_stops_when_it_is_exact_enough(model, monkeypatch):
    exact = whence.lens(model, TEXTS, error=1e-6, tuned=False)
    assert sum(exact.texts) == 8
    soon = whence.lens(model, TEXTS, error=10.0, tuned=False)
    assert sum(soon.texts) == fits.FIRST and max(soon.error) <= 10


def test_groups_of_many_parts(model, lens):
    many = whence.lens(model, TEXTS * 3, part_size=2, tuned=False)
    assert sum(many.texts) == 24 and len(many.groups) == fits.GROUPS
    np.testing.assert_allclose(many.matrices, lens.matrices, atol=1e-6)


def test_short_texts_are_left_out():
    decoder = tiny.model("gpt2")
    long = tiny.texts(30, seed=1, longest=30)
    fitted = whence.lens(decoder, long, skip=8, tuned=False)
    assert 0 < sum(fitted.texts) < 30
    with pytest.raises(BadInput, match="No text of the corpus is long enough"):
        whence.lens(decoder, TEXTS, skip=40)


def test_a_read_out_is_the_models_own_head_of_j_h(model, lens):
    text = TEXTS[0]
    ds = lens.read(model, text, k=3)
    batch = encode(model.anatomy, model.tokenizer, sentence(text)).batch
    with torch.no_grad():
        output = model.model(batch.ids, output_hidden_states=True)
        own = output.logits[0].log_softmax(dim=-1)
        for layer, states in enumerate(output.hidden_states):
            matrix = torch.from_numpy(lens.matrices.sel(layer=layer).values)
            for kind, vectors in (("jacobian", states[0] @ matrix.T), ("logit", states[0])):
                chances = logits(model.anatomy, vectors).softmax(dim=-1)
                one = ds.sel(lens=kind, layer=layer)
                np.testing.assert_allclose(one.probability, chances.topk(3).values, rtol=1e-3)
                answers = own.argmax(dim=-1)
                places = (chances > chances.gather(-1, answers[:, None])).sum(dim=-1) + 1
                assert (one.place.values == places.numpy()).all()
                assert float(one.agreement) == pytest.approx(float((places == 1).float().mean()))
    last = ds.sel(layer=3)
    assert (last.place == 1).all() and float(abs(last.divergence).max()) < 1e-5 and (last.agreement == 1).all()
    assert list(ds.token_text.values) == ["[CLS]", *text.split(), "[SEP]"]


@pytest.mark.parametrize("family", ["bert", "gpt2", "gemma3_text"])
def test_standard_errors_of_probabilities(family):
    """To first order those of a jackknife over groups, each left out once."""
    reads = tiny.model(family)
    lens = whence.lens(reads, tiny.texts(8, seed=2, longest=20), skip=0, tuned=False)
    lens = replace(lens, groups=lens.groups.mean(dim=0) + 0.02 * (lens.groups - lens.groups.mean(dim=0)))
    ds = lens.read(reads, TEXTS[1], k=2, lenses="jacobian", layers=[1])
    left = []
    for place in range(8):
        kept = [other for other in range(8) if other != place]
        part = replace(lens, groups=lens.groups[kept], texts=tuple(lens.texts[other] for other in kept))
        read = part.read(reads, TEXTS[1], k=tiny.model().model.config.vocab_size, lenses="jacobian", layers=[1])
        by_token = {}
        for token in read.token.values:
            one = read.isel(lens=0, layer=0, token=token)
            by_token[token] = dict(zip(one.candidate_token_id.values, one.probability.values, strict=True))
        wanted = ds.candidate_token_id.isel(lens=0, layer=0).values
        left.append([[by_token[token][each] for each in row] for token, row in enumerate(wanted)])
    left = np.array(left)
    expected = np.sqrt(7 / 8 * ((left - left.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(ds.probability_se.isel(lens=0, layer=0), expected, rtol=0.05, atol=2e-6)


def test_a_direction_raises_its_token(model):
    decoder = tiny.model("llama")
    lens = whence.lens(decoder, tiny.texts(4, longest=20), skip=0, tuned=False)
    directions = lens.directions(decoder, 9)
    assert directions.dims == ("layer", "width") and directions.token == "cy"
    state = torch.randn(lens.width)
    matrix = torch.from_numpy(lens.matrices.sel(layer=1).values)
    norm = decoder.anatomy.final_norm
    held = float(norm.scale(matrix @ state))

    def score(states):
        return (matrix @ states * held * norm.weight) @ decoder.anatomy.head.decoder.weight[:, 9]

    moved = torch.from_numpy(directions.sel(layer=1).values)
    gained = float(score(state + moved) - score(state))
    assert gained == pytest.approx(held * float(moved @ moved), rel=1e-3)
    with pytest.raises(BadInput, match="more than a norm and an unembedding"):
        whence.lens(model, TEXTS[:2], tuned=False).directions(model, 9)


def test_the_tuned_lens_is_ridge_regression():
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(1, 400, 6, generator=generator)
    truth = torch.randn(6, 6, generator=generator) * 0.3
    last = states[0] + states[0] @ truth.T + 2 + 0.01 * torch.randn(400, 6, generator=generator)
    found = tuned([states[:, :200], states[:, 200:]], [last[:200], last[200:]])
    torch.testing.assert_close(found.matrices[0], torch.eye(6) + truth, atol=0.01, rtol=0)
    torch.testing.assert_close(found.shifts[0], torch.full((6,), 2.0), atol=0.01, rtol=0)
    assert found.explained[0] > 0.99
    noise = torch.randn(400, 6, generator=generator)
    useless = tuned([states[:, :20], states[:, 20:40]], [states[0, :20] + noise[:20], states[0, 20:40] + noise[20:40]])
    assert useless.ridge[0] >= 1  # nothing to learn: close to the logit lens
    assert (useless.matrices[0] - torch.eye(6)).norm() < 1


def test_saved_and_loaded(model, lens, tmp_path):
    again = whence.load_lens(lens.save(tmp_path / "lens.safetensors"), model)
    assert torch.equal(again.groups, lens.groups) and torch.equal(again.tuned.matrices, lens.tuned.matrices)
    assert again.read(model, TEXTS[2]).drop_attrs().identical(lens.read(model, TEXTS[2]).drop_attrs())
    alone = whence.load_lens(lens.save(tmp_path / "mean.safetensors", errors=False), model)
    assert len(alone.groups) == 1 and np.isnan(alone.read(model, TEXTS[2]).probability_se).all()
    data = bytearray((tmp_path / "lens.safetensors").read_bytes())
    data[-9] ^= 1
    (tmp_path / "lens.safetensors").write_bytes(data)
    with pytest.raises(BadInput, match="was changed after it was written; fit the lens again"):
        whence.load_lens(tmp_path / "lens.safetensors")


def test_another_models_lens_is_refused(lens):
    other = tiny.model()
    with torch.no_grad():
        next(other.model.parameters()).mul_(1.5)
    with pytest.raises(BadInput, match="fitted to other weights"):
        lens.read(other, TEXTS[0])
    wide = tiny.model("bert", hidden_size=32)
    with pytest.raises(BadInput, match="64 wide with layers up to 3"):
        lens.read(wide, TEXTS[0])


def test_published_lenses(model, lens, tmp_path):
    """Their blocks count from 0, ours of layers from 1; pickles only when asked for."""
    matrices = {block: torch.from_numpy(lens.matrices.sel(layer=block + 1).values).half() for block in (0, 1)}
    artifact = {"J": matrices, "n_prompts": 8, "source_layers": [0, 1], "d_model": lens.width}
    torch.save(artifact, tmp_path / "lens.pt")
    with pytest.raises(BadInput, match="is a pickle, which is not read unless asked for"):
        whence.load_lens(tmp_path / "lens.pt")
    read = whence.load_lens(tmp_path / "lens.pt", model, allow_pickle=True)
    assert read.layers == (1, 2) and sum(read.texts) == 8 and read.kinds == ("jacobian", "logit")
    np.testing.assert_allclose(read.matrices, lens.matrices.sel(layer=[1, 2]), atol=2e-3)
    sums = {block: 8 * matrix.float() for block, matrix in matrices.items()}
    torch.save({"jacobian_sum": sums, "n_done": 8}, tmp_path / "checkpoint.pt")
    checkpoint = whence.load_lens(tmp_path / "checkpoint.pt", model, allow_pickle=True)
    np.testing.assert_allclose(checkpoint.matrices, read.matrices, atol=1e-6)
    torch.save({"weights": matrices}, tmp_path / "other.pt")
    with pytest.raises(BadInput, match="holds no lens"):
        whence.load_lens(tmp_path / "other.pt", allow_pickle=True)
    torch.save({"J": tmp_path}, tmp_path / "code.pt")
    with pytest.raises(BadInput, match="cannot be read as weights only"):
        whence.load_lens(tmp_path / "code.pt", allow_pickle=True)


def test_what_cannot_be_asked(model, lens, tmp_path):
    for mistake, said in (
        (lambda: lens.read(model, TEXTS[0], lenses="tunde"), "There is no lens 'tunde' here; there are: jacobian"),
        (lambda: lens.read(model, TEXTS[0], layers=[9]), "has the layers 0, 1, 2, 3, and 9 was asked for"),
        (lambda: whence.lens(model, []), "The corpus is empty"),
        (lambda: whence.lens(model, TEXTS, layers=[7]), "layers 0 to 3, and 7"),
        (lambda: whence.load_lens(tmp_path / "none.safetensors"), "There is no file"),
        (lambda: lens.save(tmp_path / "lens.bin"), "should end in .safetensors"),
    ):
        with pytest.raises(BadInput, match=said):
            mistake()
