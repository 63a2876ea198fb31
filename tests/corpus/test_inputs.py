"""Corpora of pairs, for encoder-decoders, and of pictures: the numbers of single texts, in tables."""

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import whence
from tests import stacks, tiny, towers
from tests.families import build
from whence.errors import BadInput, Unsupported
from whence.identity.states import layer_name
from whence.models.given_pair import both_of

PAIRS = [stacks.PAIR, ("bo cy", "gus"), ("ada bo", "hal fay")]
TOLD = ("sentence", "position", "token_id", "word")
MEASURES = ["mixing", "contribution", "decomposition"]


@pytest.fixture(scope="module")
def model():
    return stacks.loaded("bart")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def run(model, folder):
    (folder / "pairs.tsv").write_text("".join(f"{source}\t{answer}\n" for source, answer in PAIRS))
    corpus = whence.read(folder / "pairs.tsv", header=False, text="1", pair="2")
    whence.run(model, corpus, MEASURES, folder / "pairs", part_size=2, threads=1)
    return whence.open_run(folder / "pairs")


def test_rows_are_those_of_the_answers_tokens(model, run):
    assert run.sentences.pair.tolist() == [answer for _, answer in PAIRS] and run.finished
    for number, pair in enumerate(PAIRS):
        tree = whence.measure(model, pair, MEASURES)
        own, across = (tree[side] for side in ("decoder", "cross"))
        for layer in (1, 2):
            rows = run.tokens[(run.tokens.sentence == number) & (run.tokens.layer == layer)]
            assert rows.token.tolist() == own.target_token.values.tolist()
            assert rows.position.tolist() == list(range(across.sizes["source"], across.sizes["source"] + len(rows)))
            for analysis in own.analysis.values[:5]:
                for side, end in ((own, ""), (across, "_from_source")):
                    expected = side.mixing.sel(analysis=analysis, layer=layer)
                    assert rows[f"mixing_{analysis}{end}"].values == pytest.approx(expected.values, abs=1e-6)
            maps = own.contribution.sel(layer=layer).values, across.contribution.sel(layer=layer).values
            assert rows.contribution_own.values == pytest.approx(maps[0].diagonal(), abs=1e-6)
            assert rows.contribution_from_source.values == pytest.approx(maps[1].sum(axis=1), abs=1e-6)
            joint = np.concatenate(maps, axis=1).clip(1e-30)
            assert rows.contribution_entropy.values == pytest.approx(-(joint * np.log(joint)).sum(axis=1), abs=1e-5)
            bias = own.decomposition_bias.sel(layer=layer)
            assert rows.decomposition_bias.values == pytest.approx(bias.values, abs=1e-5)


def test_every_word_of_the_answer_is_paired_with_every_word_of_the_source(model, run):
    pairs = run.pairs.query("sentence == 0 and layer == 2 and kind == 'across'")
    assert len(pairs) == 5 * 3 and pairs.distance.isna().all()
    across = whence.measure(model, PAIRS[0], ["contribution"])["cross"].contribution.sel(layer=2)
    row = pairs.query("target_word == 'gus' and source_word == 'cy'").iloc[0]
    words = {axis: across[f"{axis}_word"].values.tolist() for axis in ("target", "source")}
    expected = across.values[words["target"].index("gus"), words["source"].index("cy")]
    assert row.contribution == pytest.approx(expected, abs=1e-6)
    assert set(run.pairs.query("kind == 'neighbour'").target_word) <= {"fay", "gus", "hal"}


def test_moments_are_over_tokens_of_answers(run):
    rows = run.tokens.query("layer == 1")
    moments = run.moments.query("variable == 'mixing_attn_n_from_source' and layer == 1 and by == 'all'").iloc[0]
    assert moments["count"] == len(rows)
    assert moments["mean"] == pytest.approx(rows.mixing_attn_n_from_source.mean(), abs=1e-6)


def test_what_answers_rest_on_in_both_texts(model, folder):
    whence.run(model, PAIRS, ["why"], folder / "why", threads=1, layers=[0, 5])
    run = whence.open_run(folder / "why")
    for number, (source, answer) in enumerate(PAIRS):
        ds = whence.why(model, source, answer=answer)
        for place, position in enumerate(ds.predicted.values):
            rows = run.pairs[(run.pairs.sentence == number) & (run.pairs.position == position)].query("layer == 0")
            visible = ds.isel(predicted=place, source=slice(0, position + 1)).sel(layer=0)
            assert rows.share.values == pytest.approx(visible.share.values, abs=1e-5)
            assert rows.source_stack.tolist() == visible.source_stack.values.tolist()
            assert rows.source_is_answer.tolist() == visible.source_is_answer.values.tolist()


def test_what_a_corpus_of_pairs_cannot_have_is_refused(model, tmp_path):
    for corpus, measures, more, why in (
        (["ada bo"], ["mixing"], {}, "its corpus has pairs, a source and its answer"),
        (PAIRS, ["attention"], {}, "has what goes over both texts .* and 'attention' was asked for"),
        (PAIRS, ["mixing"], {"maps": True}, "Maps over two texts are not kept"),
    ):
        with pytest.raises((BadInput, Unsupported), match=why):
            whence.run(model, corpus, measures, tmp_path / "run", **more)


def test_the_decoders_states_of_an_answer_are_those_that_its_tokens_are_found_by(model, folder):
    """Beside its source each of them; states are transformers' own."""
    ds = whence.identify(model, PAIRS, "naive", folds=1, cache=folder / "states", tokens=True)
    assert ds.sizes["layer"] == 2 and ds.layer.values.tolist() == [1, 2]
    answers = [both_of(model, pair).prefix for pair in PAIRS]
    for number, place, token, word in zip(*(ds[name].values for name in TOLD), strict=True):
        assert (token, word) == (int(answers[number].batch.ids[0, place]), answers[number].words[place])
    pair = both_of(model, PAIRS[0]).batch
    with torch.no_grad():
        inputs = {"input_ids": pair.source.ids, "decoder_input_ids": pair.prefix.ids}
        own = model.model(**inputs, output_hidden_states=True).decoder_hidden_states
    states = np.fromfile(next((folder / "states").rglob(layer_name(1))), np.float32).reshape(-1, 64)
    assert states[: pair.prefix.ids.shape[1]] == pytest.approx(own[1][0].float().numpy(), abs=1e-5)
    with pytest.raises(BadInput, match="its corpus has pairs"):
        whence.identify(model, ["ada bo"], "naive", folds=1)
    with pytest.raises(BadInput, match="leave embeddings= out"):
        whence.identify(model, PAIRS, "naive", folds=1, embeddings="sum")


def test_a_folder_of_pictures(tmp_path):
    for number in range(2):
        pixels = np.random.RandomState(number).randint(0, 256, (30, 30, 3)).astype("uint8")
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    vit = whence.load(towers.build("vit"), ViTImageProcessorPil(size=towers.SIDE))
    corpus = whence.read(tmp_path / "*.png")
    whence.run(vit, corpus, ["mixing", "attention"], tmp_path / "run", threads=1)
    run = whence.open_run(tmp_path / "run")
    assert run.sentences.id.tolist() == ["0.png", "1.png"] and run.tokens.token.tolist()[:2] == ["[CLS]", "r0c0"]
    expected = whence.measure(vit, str(tmp_path / "1.png"), ["mixing"]).mixing.sel(analysis="attn_n", layer=3)
    np.testing.assert_array_equal(run.tokens.query("sentence == 1 and layer == 3").mixing_attn_n, expected)
    Image.fromarray(pixels[::-1]).save(tmp_path / "1.png")
    with pytest.raises(BadInput, match="made from other sentences"):
        whence.run(vit, corpus, ["mixing", "attention"], tmp_path / "run", threads=1)
    with pytest.raises(BadInput, match="reads texts here, and the file of a picture was given"):
        whence.run(whence.load(build("bert"), tiny.tokenizer()), corpus, out=tmp_path / "texts")
    with pytest.raises(Unsupported, match="A run about predictions is of tokens"):
        whence.run(vit, corpus, ["why"], tmp_path / "why")
