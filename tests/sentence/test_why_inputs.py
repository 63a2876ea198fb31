"""Why this class of a picture or sound, and why a picture and a text are similar: parts that add up to the model's own
score, derivatives that are autograd's, and trained models of which the right answer is known.
"""

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForAudioClassification,
    AutoModelForAudioFrameClassification,
    AutoModelForCTC,
    AutoModelForImageClassification,
    CLIPForImageClassification,
    DeiTForImageClassificationWithTeacher,
    SiglipForImageClassification,
    Wav2Vec2ForSequenceClassification,
)
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import whence
from tests import tiny, towers
from tests.towers import PAIRS, PICTURES, SOUNDS, build, built, pair
from whence.errors import BadInput, Unsupported, VerificationFailed

PIXELS = {"pixel_values": torch.rand(1, 3, 24, 24, generator=torch.Generator().manual_seed(3))}
SAMPLES = {"input_values": torch.randn(1, 320, generator=torch.Generator().manual_seed(4))}
CLASSIFIERS = [name for name in PICTURES if name not in ("deit", "dinov3", "dinov3-gated", *towers.WITHIN)]
OF_SOUNDS = [AutoModelForAudioClassification, AutoModelForAudioFrameClassification, AutoModelForCTC]
KINDS = {
    "deit": lambda: built("deit", AutoModelForImageClassification._model_mapping[_config("deit")][0]),
    "deit with a teacher": lambda: built("deit", DeiTForImageClassificationWithTeacher),
    "clip": lambda: pair("clip", CLIPForImageClassification),
    "siglip": lambda: pair("siglip", SiglipForImageClassification),
}


def _config(name):
    return type(build(name).config)


def far(ds):
    size = abs(ds.share).sum("source") + abs(ds.bias)
    return float((abs(ds.share.sum("source") + ds.bias - ds.logit) / size).max())


def gradient(model, inputs, value):
    """Lengths of the derivative of value(output) by every token's input to the first block."""
    seen = []

    def start(block, args, kwargs):
        seen.append((args[0] if args else kwargs["hidden_states"]).detach().requires_grad_())
        return ((seen[0], *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": seen[0]})

    handle = model.anatomy.blocks[0].register_forward_pre_hook(start, with_kwargs=True)
    value((model.around or model.model)(**inputs)).backward()
    handle.remove()
    return seen[0].grad[0].norm(dim=-1).numpy()


# Classes


def network(name):
    return KINDS[name]() if name in KINDS else build(name, AutoModelForImageClassification, num_labels=3)


@pytest.mark.parametrize("name", [*CLASSIFIERS, *KINDS])
def test_parts_add_up_to_the_score_of_a_class_of_a_picture(name):
    model = whence.load(network(name))
    ds = whence.why(model, PIXELS, label=1)
    with torch.no_grad():
        scores = model.model(**PIXELS).logits[0]
    assert ds.logit.item() == pytest.approx(float(scores[1]), rel=1e-4, abs=1e-5) and far(ds) < 1e-5
    assert ds.probability.item() == pytest.approx(float(scores.softmax(-1)[1]), rel=1e-4)
    assert whence.why(model, PIXELS, measures="share").predicted_token.item() == f"LABEL_{int(scores.argmax())}"
    expected = gradient(model, PIXELS, lambda output: output.logits[0].log_softmax(-1)[1])
    assert ds.dependence.isel(predicted=0, layer=0).values == pytest.approx(expected, rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("name", ["dinov2", "dinov2_with_registers"])
def test_what_dinov2_reads_is_cls_beside_the_mean_of_the_patches(name):
    """Of the last layer, by hand: registers give nothing, a patch its part of the mean."""
    model = whence.load(build(name, AutoModelForImageClassification, num_labels=3))
    ds = whence.why(model, PIXELS, label=2, measures="share")
    with torch.no_grad():
        states = model.model.base_model(**PIXELS, output_hidden_states=True)
        last, norm, weight = (
            states.hidden_states[-1][0],
            model.model.base_model.layernorm,
            model.model.classifier.weight,
        )
        centred = last - last.mean(dim=-1, keepdim=True)
        normed = centred * (centred.square().mean(dim=-1, keepdim=True) + norm.eps).rsqrt() * norm.weight
    parts = (normed @ weight[2].reshape(2, -1).T).detach()
    before = len(last) - 16
    expected = torch.cat([parts[:1, 0], torch.zeros(before - 1), parts[before:, 1] / 16])
    assert ds.share.isel(predicted=0, layer=-1).values == pytest.approx(expected.numpy(), rel=1e-4, abs=1e-6)


def test_a_class_of_a_picture_has_patches_and_the_picture():
    model = whence.load(build("vit", AutoModelForImageClassification), ViTImageProcessorPil(size=towers.SIDE))
    picture = np.random.RandomState(0).randint(0, 256, (40, 50, 3)).astype("uint8")
    ds = whence.why(model, picture)
    assert ds.picture.startswith("data:image/png;base64,")
    assert ds.source_row.values.tolist() == [-1, *np.repeat(range(4), 4)] and ds.predicted.item() == 0


@pytest.mark.parametrize(
    "kind", [AutoModelForAudioClassification, AutoModelForAudioFrameClassification, AutoModelForCTC]
)
@pytest.mark.parametrize("name", SOUNDS)
def test_parts_add_up_to_the_classes_of_a_sound(name, kind):
    try:
        model = whence.load(build(name, kind, num_labels=3))
    except ValueError:
        pytest.skip(f"transformers has no such classifier of {name}")
    ds = whence.why(model, SAMPLES, label=2)
    with torch.no_grad():
        scores = model.model(**SAMPLES).logits[0]
    own = scores[2:3] if scores.ndim == 1 else scores[ds.predicted.values.tolist(), 2]
    assert ds.logit.values == pytest.approx(own.numpy(), rel=1e-4, abs=1e-5) and far(ds) < 1e-5
    place = int(ds.predicted[-1])

    def log_probability(output):
        rows = output.logits[0] if scores.ndim == 1 else output.logits[0, place]
        return rows.log_softmax(-1)[2]

    expected = gradient(model, SAMPLES, log_probability)
    assert ds.dependence.isel(predicted=-1, layer=0).values == pytest.approx(expected, rel=1e-3, abs=1e-7)


def test_letters_stand_where_no_blank_is():
    network = build("wav2vec2-stable", AutoModelForCTC)
    with torch.no_grad():
        best = network(**SAMPLES).logits[0].argmax(-1)
        network.config.pad_token_id = int(best.mode().values)
    ds = whence.why(whence.load(network), SAMPLES, measures="share")
    assert ds.predicted.values.tolist() == (best != network.config.pad_token_id).nonzero().flatten().tolist()
    assert ds.predicted_token_id.values.tolist() == best[ds.predicted.values.tolist()].tolist()


def test_a_mean_over_layers_is_refused_by_name():
    config = build("wav2vec2").config
    config.use_weighted_layer_sum = True
    model = whence.load(Wav2Vec2ForSequenceClassification(config).eval())
    assert "norms" in model.gives
    with pytest.raises(Unsupported, match="How Wav2Vec2ForSequenceClassification scores its classes is not known"):
        whence.why(model, SAMPLES)


def test_a_tower_alone_says_what_can_be_asked():
    with pytest.raises(Unsupported, match=r"ViTModel has no head that scores classes; load .* similar the pict"):
        whence.why(whence.load(build("vit")), PIXELS)


@pytest.mark.parametrize(("name", "specials"), [("dinov2_with_registers", 5), ("dinov3", 3)])
def test_two_pictures_by_one_tower(name, specials):
    model = whence.load(build(name))
    other = {"pixel_values": 1 - PIXELS["pixel_values"]}
    ds = whence.why(model, PIXELS, similar_to=other, pooling="patches")
    with torch.no_grad():
        vectors = [model.model(**each).last_hidden_state[0, specials:].mean(dim=0) for each in (PIXELS, other)]
    assert ds.logit.item() == pytest.approx(float(torch.cosine_similarity(*vectors, dim=0)), rel=1e-4)
    assert far(ds) < 1e-5 and ds.predicted_token.item() == "the other picture"


# How similar a picture and a text are


@pytest.fixture(scope="module", params=PAIRS)
def both(request):
    return whence.load(pair(request.param), tiny.tokenizer())


TEXT = "ada bo cy"


def read(model, text=TEXT):
    """What the model's own forward is given."""
    ids = torch.tensor([model.tokenizer(text)["input_ids"]])
    if model.tower.filled:
        padding = (0, model.anatomy.config.max_position_embeddings - ids.shape[1])
        ids = torch.nn.functional.pad(ids, padding, value=model.tokenizer.pad_token_id)
    return PIXELS | {"input_ids": ids}


def cosine(output):
    return torch.cosine_similarity(output.image_embeds, output.text_embeds)[0]


def test_either_side_is_explained_and_adds_up_to_the_cosine(both):
    with torch.no_grad():
        expected = float(cosine(both.around(**read(both))))
    of_picture = whence.why(both, PIXELS, similar_to=TEXT)
    of_text = whence.why(both, TEXT, similar_to=PIXELS)
    for ds in (of_picture, of_text):
        assert ds.logit.item() == pytest.approx(expected, rel=1e-4) and far(ds) < 1e-5
    assert of_picture.predicted_token.item() == TEXT and of_text.predicted_token.item() == "the other picture"
    assert "source_row" in of_picture.coords and "source_row" not in of_text.coords


def test_the_dependence_on_either_side_is_autograds(both):
    for item, other, model in ((PIXELS, TEXT, both.pictures), (TEXT, PIXELS, both)):
        ds = whence.why(both, item, similar_to=other, measures="dependence")
        expected = gradient(model, read(both), cosine)
        assert ds.dependence.isel(predicted=0, layer=0).values == pytest.approx(expected, rel=1e-3, abs=1e-7)


def test_the_projection_is_in_the_map():
    """Of CLIP's last layer, by hand: the normed [CLS] times what the projections make of the text's direction."""
    both = whence.load(pair("clip"), tiny.tokenizer())
    ds = whence.why(both, PIXELS, similar_to=TEXT, measures="share")
    with torch.no_grad():
        output = both.around(**read(both), output_hidden_states=True)
        state, norm = output.vision_model_output.hidden_states[-1][0, 0], both.around.vision_model.post_layernorm
        centred = state - state.mean()
        normed = centred / (centred.square().mean() + norm.eps).sqrt() * norm.weight
        length = output.vision_model_output.pooler_output.norm()
        expected = (both.around.visual_projection.weight @ normed) @ output.text_embeds[0] / length
    last = ds.share.isel(predicted=0, layer=-1).values
    assert last[0] == pytest.approx(float(expected), rel=1e-4) and (last[1:] == 0).all()


def test_two_texts_and_measures_of_either_tower(both):
    ds = whence.why(both, TEXT, similar_to="dee ed")
    with torch.no_grad():
        vectors = [both.around(**read(both, text)).text_embeds[0] for text in (TEXT, "dee ed")]
    assert ds.logit.item() == pytest.approx(float(torch.cosine_similarity(*vectors, dim=0)), rel=1e-4)
    assert "target_row" in whence.measure(both, PIXELS, ["mixing"]).coords
    assert "target_row" not in whence.measure(both, TEXT, ["mixing"]).coords


def test_a_file_is_a_picture_and_other_texts_are_texts(tmp_path):
    from transformers import CLIPProcessor

    processor = CLIPProcessor(ViTImageProcessorPil(size=towers.SIDE), tiny.tokenizer())
    both = whence.load(pair("clip"), processor)
    from PIL import Image

    Image.fromarray(np.random.RandomState(0).randint(0, 256, (30, 30, 3)).astype("uint8")).save(tmp_path / "a.png")
    ds = whence.why(both, str(tmp_path / "a.png"), similar_to=TEXT)
    assert ds.sizes["source"] == 17 and ds.picture.startswith("data:image/png")
    assert whence.why(both, TEXT, similar_to=str(tmp_path / "a.png")).predicted_token.item() == "the other picture"
    with pytest.raises(BadInput, match=r"'a.png' is the name of a picture, and no such file is here"):
        whence.why(both, "a.png", similar_to=TEXT)


def test_a_vector_that_is_made_otherwise_is_refused():
    network = pair("clip")
    own = network.get_image_features

    def other(**inputs):
        output = own(**inputs)
        output.pooler_output = output.pooler_output * 1.01
        return output

    network.get_image_features = other
    with pytest.raises(VerificationFailed, match="CLIPModel makes another vector than was expected of its part vision"):
        whence.load(network, tiny.tokenizer())


def test_towers_pool_in_their_own_way(both):
    with pytest.raises(BadInput, match="makes its vectors in its own way, so it goes without pooling="):
        whence.why(both, PIXELS, similar_to=TEXT, pooling="mean")


# Trained on a task with a known answer


def test_the_patch_that_decides_is_found():
    """One of sixteen patches is red or blue, the others are dim noise: its colour is the class."""
    network, draw = towers.trained_on_patches()
    model = whence.load(network)
    pixels, places, colours = draw(40)
    with torch.no_grad():
        assert (network(pixels).logits.argmax(-1) == colours).float().mean() > 0.98
    found = {"share": 0, "decomposition": 0}
    for picture, place, colour in zip(pixels, places.tolist(), colours.tolist(), strict=True):
        given = {"pixel_values": picture[None]}
        ds = whence.why(model, given, label=colour, against=1 - colour, measures="share")
        found["share"] += int(ds.share.values[0, 0, 1:].argmax()) == place
        ds = whence.measure(model, given, ["decomposition"], targets=[0], layers=[model.anatomy.layers])
        found["decomposition"] += int(ds.decomposition.values[0, 0, 1:].argmax()) == place
    assert found["share"] >= 38 and found["decomposition"] >= 38, found


def test_the_token_that_decides_is_found():
    """One of two words among others that say nothing decides the class."""
    network, draw = towers.trained_on_tokens()
    model = whence.load(network, tiny.tokenizer())
    ids, places, classes = draw(40)
    with torch.no_grad():
        assert (network(ids).logits.argmax(-1) == classes).float().mean() > 0.98
    found = 0
    for row, place, number in zip(ids.tolist(), places.tolist(), classes.tolist(), strict=True):
        ds = whence.why(model, row, label=number, against=1 - number, measures="share")
        found += int(ds.share.values[0, 0].argmax()) == place
    assert found >= 38, found
