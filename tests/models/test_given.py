"""What may be given to a model that reads pictures or sounds, and where its tokens stand."""

import wave

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageClassification, Wav2Vec2FeatureExtractor, WhisperFeatureExtractor
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import whence
from tests import tiny
from tests.towers import PICTURES, SOUNDS, build
from whence.errors import BadInput, Unsupported
from whence.models.given import encoded_of
from whence.models.places import misplaced

SIDE = {"height": 24, "width": 24}
PIXELS = np.random.RandomState(0).randint(0, 256, (40, 50, 3)).astype("uint8")
SAMPLES = np.random.RandomState(0).randn(320).astype("float32")


@pytest.fixture(scope="module")
def deit():
    return whence.load(build("deit"), ViTImageProcessorPil(size=SIDE))


@pytest.fixture(scope="module")
def wav2vec2():
    return whence.load(build("wav2vec2"), Wav2Vec2FeatureExtractor())


def test_a_picture_in_every_form_is_the_same(deit, tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "a.png")
    forms = [Image.fromarray(PIXELS), tmp_path / "a.png", str(tmp_path / "a.png"), PIXELS]
    forms.append(deit.processor(images=Image.fromarray(PIXELS), return_tensors="pt"))
    given = [whence.measure(deit, form, ["mixing"]) for form in forms]
    for other in given[1:]:
        np.testing.assert_array_equal(other.mixing, given[0].mixing)


def test_patches_have_rows_and_columns_and_the_others_are_special(deit):
    ds = whence.measure(deit, PIXELS, ["attention"])
    assert ds.source_token.values[:4].tolist() == ["[CLS]", "[DIST]", "r0c0", "r0c1"]
    assert ds.source_row.values.tolist() == [-1, -1, *np.repeat(range(4), 4)]
    assert ds.target_column.values.tolist() == [-1, -1, *np.tile(range(4), 4)]
    assert ds.source_is_special.values.sum() == 2
    assert set(ds.source_token_id.values.tolist()) == {-1}


def test_registers_are_special():
    model = whence.load(build("dinov2_with_registers"), ViTImageProcessorPil(size=SIDE))
    tokens = encoded_of(model, PIXELS).tokens
    assert tokens[:6] == ["[CLS]", "[REG1]", "[REG2]", "[REG3]", "[REG4]", "r0c0"]


@pytest.mark.parametrize("name", PICTURES)
def test_patches_stand_where_their_pixels_are(name):
    model = whence.load(build(name), ViTImageProcessorPil(size=SIDE))
    encoded = encoded_of(model, PIXELS)
    assert misplaced(model.anatomy, encoded.batch) == 0
    assert sum(encoded.special) + 16 == len(encoded.tokens)


def test_a_family_whose_patches_stand_elsewhere_is_refused(monkeypatch):
    model = build("vit")
    forward = type(model.embeddings).forward
    monkeypatch.setattr(type(model.embeddings), "forward", lambda *a, **k: forward(*a, **k).flip(1))
    with pytest.raises(whence.errors.WhenceError, match="every patch is read by its own token"):
        whence.load(model)


def test_frames_have_the_times_of_the_samples_that_the_convolutions_read(wav2vec2):
    """Kernels 10 and 4, strides 5 and 2: 25 samples to a frame, every 10, at 16 kHz."""
    ds = whence.measure(wav2vec2, SAMPLES, ["attention"])
    assert ds.sizes["source"] == (320 - 25) // 10 + 1
    np.testing.assert_allclose(ds.source_start, np.arange(30) * 10 / 16_000, atol=1e-6)
    np.testing.assert_allclose(ds.source_end - ds.source_start, 25 / 16_000, atol=2e-6)


@pytest.mark.parametrize("name", SOUNDS)
def test_a_sound_as_the_processor_gives_it(name):
    model = whence.load(build(name), Wav2Vec2FeatureExtractor())
    inputs = model.processor(SAMPLES, sampling_rate=16_000, return_tensors="pt")
    direct = whence.measure(model, SAMPLES, ["mixing"])
    np.testing.assert_array_equal(whence.measure(model, inputs, ["mixing"]).mixing, direct.mixing)


def test_a_wav_file_is_its_samples(wav2vec2, tmp_path):
    def written(rate, channels=1):
        with wave.open(str(tmp_path / "a.wav"), "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(np.repeat(whole, channels).tobytes())
        return tmp_path / "a.wav"

    whole = (SAMPLES / abs(SAMPLES).max() * 32_000).astype("<i2")
    expected = whence.measure(wav2vec2, (whole / 2**15).astype("float32"), ["mixing"]).mixing
    for channels in (1, 2):
        read = whence.measure(wav2vec2, str(written(16_000, channels)), ["mixing"]).mixing
        np.testing.assert_allclose(read, expected, atol=1e-6)
    with pytest.raises(BadInput, match=r"'a.wav' has 8,000 samples per second of 16 bits, and 16,000 of 16 bits"):
        whence.measure(wav2vec2, written(8_000), ["mixing"])
    (tmp_path / "b.wav").write_text("no sound")
    with pytest.raises(BadInput, match=r"'b.wav' is no \.wav file that can be read"):
        whence.measure(wav2vec2, tmp_path / "b.wav", ["mixing"])


def test_the_picture_is_kept_as_the_model_reads_it(deit):
    import base64
    import io

    ds = whence.measure(deit, PIXELS, ["mixing"])
    with Image.open(io.BytesIO(base64.b64decode(ds.picture.partition(",")[2]))) as kept:
        shown = np.asarray(kept)
    expected = np.asarray(Image.fromarray(PIXELS).resize((24, 24), Image.Resampling.BILINEAR))
    assert shown.shape == (24, 24, 3)
    assert np.abs(shown.astype(int) - expected.astype(int)).max() <= 1


def test_without_a_processor_only_inputs_are_taken():
    model = whence.load(build("vit"))
    assert whence.measure(model, {"pixel_values": torch.rand(1, 3, 24, 24)}, ["mixing"]).sizes["target"] == 17
    with pytest.raises(BadInput, match="loaded without a processor"):
        whence.measure(model, PIXELS, ["mixing"])


WRONG = {
    "a text": ("hello", "reads pictures .* and 'hello' is no file of a picture"),
    "a number": (3, "and int was given"),
    "two pictures": ({"pixel_values": torch.rand(2, 3, 24, 24)}, "One picture is measured at a time, and 2"),
    "tokens": ({"input_ids": torch.ones(1, 3)}, "reads pixel_values, and inputs named input_ids"),
    "no numbers": ({"pixel_values": torch.full((1, 3, 24, 24), torch.nan)}, "no numbers"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_picture_is_refused_in_one_sentence(deit, case):
    item, why = WRONG[case]
    with pytest.raises(BadInput, match=why) as caught:
        whence.measure(deit, item, ["mixing"])
    assert "\n" not in str(caught.value)


def test_a_padded_sound_and_a_text_are_refused(wav2vec2):
    mask = torch.ones(1, 320)
    mask[0, 300:] = 0
    with pytest.raises(BadInput, match="padded"):
        whence.measure(wav2vec2, {"input_values": torch.from_numpy(SAMPLES)[None], "attention_mask": mask})
    with pytest.raises(BadInput, match="reads sounds"):
        whence.measure(wav2vec2, "hello")


def test_a_picture_is_refused_by_a_model_of_texts(builtin):
    for item in (Image.fromarray(PIXELS), {"pixel_values": torch.rand(1, 3, 24, 24)}):
        with pytest.raises(BadInput, match="A text is a str"):
            whence.measure(builtin, item)


def test_verbs_that_need_a_text_refuse_by_name(deit, tmp_path):
    verbs = {
        "run": lambda: whence.run(deit, ["x"], ["mixing"], out=tmp_path / "run"),
        "identify": lambda: whence.identify(deit, ["x"]),
        "alternative": lambda: whence.alternative_attention(deit, "x", 1, 1),
        "lm_head": lambda: whence.lm_head(deit, "x"),
        "lens": lambda: whence.lens(deit, ["x"]),
    }
    for name, verb in verbs.items():
        with pytest.raises((Unsupported, BadInput)) as caught:
            verb()
        assert "\n" not in str(caught.value), name


def test_a_tokenizer_is_not_what_a_model_of_pictures_needs():
    with pytest.raises(BadInput, match="ViTModel reads pictures and no text, and a tokenizer was given"):
        whence.load(build("vit"), tiny.tokenizer())


def test_a_folder_has_its_processor(tmp_path):
    build("vit", AutoModelForImageClassification).save_pretrained(tmp_path)
    ViTImageProcessorPil(size=SIDE).save_pretrained(tmp_path)
    model = whence.load(tmp_path)
    assert type(model.processor).__name__ == "ViTImageProcessorPil"
    assert whence.measure(model, PIXELS, ["mixing"]).sizes["target"] == 17
    (tmp_path / "preprocessor_config.json").unlink()
    assert whence.load(tmp_path).processor is None


def test_the_encoder_of_whisper_has_twenty_milliseconds_to_a_frame():
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=64, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=80, max_source_positions=50
    )
    model = whence.load(WhisperEncoder(config).eval(), WhisperFeatureExtractor(chunk_length=1))
    ds = whence.measure(model, np.zeros(16_000, dtype="float32"), ["mixing"])
    assert ds.sizes["target"] == 50
    np.testing.assert_allclose(ds.target_start, np.arange(50) * 0.02, atol=1e-6)
