"""Texts with pictures in them: every token at its place, parts that add up, derivatives of the model's own code."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.autograd.functional import jacobian

import whence
from tests import mixed, tiny
from tests.mixed import MARKS, MODELS, PICTURE, READ, TOKENIZER, build, given
from whence.errors import BadInput, Unsupported
from whence.models.mixed import MIXING, QWEN, pictures


@pytest.fixture(scope="module", params=READ)
def case(request):
    """A model in float64, what it is given, and its name."""
    inputs = given(request.param)
    inputs["pixel_values"] = inputs["pixel_values"].double()
    return whence.load(build(request.param).double(), TOKENIZER), inputs, request.param


def own_logits(model, inputs):
    with torch.no_grad():
        return model.model(**inputs, use_cache=False).logits[0]


def far(ds):
    size = abs(ds.share).sum("source") + abs(ds.bias)
    return float((abs(ds.share.sum("source") + ds.bias - ds.logit) / size).max())


def test_parts_add_up_to_the_models_own_logit(case):
    model, inputs, _ = case
    expected = own_logits(model, inputs)[-1]
    ds = whence.why(model, inputs, measures="share")
    assert ds.logit.item() == pytest.approx(float(expected.max()), rel=1e-6) and far(ds) < 1e-6
    assert ds.predicted_token_id.item() == int(expected.argmax())
    assert ds.predicted.item() == inputs["input_ids"].shape[1] - 1


def test_tokens_of_a_picture_have_their_place_in_it(case):
    model, inputs, name = case
    ds = whence.measure(model, inputs, ["mixing"])
    grids, own = MODELS[name][2], (inputs["input_ids"][0] == PICTURE).numpy()
    cells = [(number, *divmod(cell, c)) for number, (r, c) in enumerate(grids) for cell in range(r * c)]
    found = [ds[f"target_{axis}"].values for axis in ("picture", "row", "column")]
    assert list(zip(*(values[own].tolist() for values in found), strict=True)) == cells
    assert all((values[~own] == -1).all() for values in found)
    assert ds.target_token.values[:3].tolist() == ["[CLS]", "ada", "bo"] and not ds.target_is_special.values[own].any()
    assert len(ds.picture.split("\n")) == len(grids)


def test_they_stand_where_their_pixels_are(case):
    """Without attention in the tower, a part of the picture moves the state of its own token and no other."""
    _, inputs, name = case
    network = build(name)
    inside = network.model.visual if hasattr(network.model, "visual") else None
    tower = inside or getattr(network.model, "vision_tower", None) or network.model.vision_model
    for path, module in tower.named_modules():
        if path.rpartition(".")[2] in ("out_proj", "proj") and "attn" in path:
            torch.nn.init.zeros_(module.weight)
            torch.nn.init.zeros_(module.bias)
    model = whence.load(network, TOKENIZER)
    pixels = inputs["pixel_values"].float()
    numbered = torch.arange(1, pixels.numel() + 1, dtype=torch.float64).reshape(pixels.shape)
    where = list(pictures(model.anatomy, inputs | {"pixel_values": numbered}))
    ds = whence.measure(model, inputs | {"pixel_values": pixels}, ["mixing"])
    before = first_states(model, inputs | {"pixel_values": pixels})
    for token in np.flatnonzero(ds.target_row.values >= 0)[[0, 1, -1]]:
        number, row, column = (int(ds[f"target_{axis}"][token]) for axis in ("picture", "row", "column"))
        rows, columns = MODELS[name][2][number]
        high, wide = where[number].shape[-2] // rows, where[number].shape[-1] // columns
        part = where[number][..., row * high : (row + 1) * high, column * wide : (column + 1) * wide]
        changed = pixels.flatten().clone()
        changed[part.flatten().long() - 1] += 0.5
        after = first_states(model, inputs | {"pixel_values": changed.reshape(pixels.shape)})
        moved = (after - before).norm(dim=-1) > 1e-4 * before.norm(dim=-1)
        assert moved.nonzero().flatten().tolist() == [token]


def first_states(model, inputs):
    seen = []

    def keep(block, args, kwargs):
        seen.append(args[0] if args else kwargs["hidden_states"])

    handle = model.anatomy.blocks[0].register_forward_pre_hook(keep, with_kwargs=True)
    own_logits(model, inputs)
    handle.remove()
    return seen[0][0]


def test_contributions_are_those_of_the_models_own_code(case):
    model, inputs, _ = case
    start = first_states(model, inputs)

    def last(states):
        kept = []

        def begin(block, args, kwargs):
            return ((states[None], *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": states[None]})

        blocks = model.anatomy.blocks
        handles = [
            blocks[0].register_forward_pre_hook(begin, with_kwargs=True),
            blocks[-1].register_forward_hook(
                lambda _, __, output: kept.append(output[0] if isinstance(output, tuple) else output)
            ),
        ]
        model.model(**inputs, use_cache=False)
        for handle in handles:
            handle.remove()
        return kept[0][0]

    lengths = jacobian(last, start).norm(dim=(1, 3))
    expected = (lengths / lengths.sum(dim=-1, keepdim=True)).numpy()
    ds = whence.measure(model, inputs, ["contribution"], layers=[3])
    np.testing.assert_allclose(ds.contribution.values[0], expected, rtol=1e-5, atol=1e-9)


def test_every_state_is_the_sum_of_its_parts(case):
    model, inputs, _ = case
    ds = whence.measure(model, inputs, ["attention", "decomposition", "norms"])
    np.testing.assert_allclose(ds.attention.sum("source"), 1, atol=1e-6)
    np.testing.assert_allclose(ds.decomposition_share.sum("source"), 1, atol=1e-6)


def test_the_model_comes_back_as_it_was(case):
    model, inputs, _ = case
    before = own_logits(model, inputs)
    whence.why(model, inputs)
    assert torch.equal(own_logits(model, inputs), before)


def test_tokens_of_a_picture_see_each_other_in_gemma3_alone():
    for name in READ:
        ds = whence.measure(whence.load(build(name), TOKENIZER), given(name), ["attention"], layers=[1])
        own = np.flatnonzero(ds.target_row.values >= 0)
        ahead = ds.attention.values[0, :, own[0], own[1]]
        assert (ahead > 0).all() if name == "gemma3" else (ahead == 0).all()


@pytest.mark.parametrize("name", MARKS)
def test_what_marks_a_picture_is_found_out_where_it_was_not_given(name):
    model, inputs = whence.load(build(name), TOKENIZER), given(name)
    bare = {key: value for key, value in inputs.items() if key != MARKS[name]}
    marked, unmarked = (whence.why(model, each, measures="share") for each in (inputs, bare))
    np.testing.assert_array_equal(marked.share, unmarked.share)


@pytest.mark.parametrize("name", ["llava", "gemma3", "qwen2_vl"])
def test_an_answer_is_explained_token_by_token(name):
    model, inputs = whence.load(build(name), TOKENIZER), given(name)
    count = inputs["input_ids"].shape[1]
    written = whence.why(model, inputs, generate=3, measures="share")
    assert written.predicted.values.tolist() == [count - 1, count, count + 1] and far(written) < 1e-4
    asked = whence.why(model, inputs, answer=written.predicted_token_id.values.tolist(), measures="share")
    np.testing.assert_allclose(asked.share, written.share, atol=1e-5)
    assert int(written.predicted_token_id[0]) == int(own_logits(model, inputs)[-1].argmax())
    in_words = whence.why(model, inputs, answer="fay gus", measures="share")
    assert in_words.predicted_token.values.tolist() == ["fay", "gus"]


@pytest.fixture(scope="module")
def llava():
    """With a processor of its own."""
    from transformers import LlavaProcessor
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    tokenizer = tiny.tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    images = ViTImageProcessorPil(size={"height": 24, "width": 24})
    sizes = {"patch_size": 6, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    processor = LlavaProcessor(images, tokenizer, image_token="<image>", **sizes)
    assert tokenizer.convert_tokens_to_ids("<image>") == PICTURE
    return whence.load(build("llava"), processor)


def test_a_picture_and_a_text_go_through_the_processor(llava, tmp_path):
    picture = np.random.RandomState(0).randint(0, 256, (40, 40, 3)).astype("uint8")
    Image.fromarray(picture).save(tmp_path / "a.png")
    direct = llava.processor(images=Image.fromarray(picture), text="<image>ada bo", return_tensors="pt")
    name = tmp_path / "a.png"
    forms = [(name, "ada bo"), (str(name), "ada bo"), (picture, "<image>ada bo"), dict(direct)]
    read = [whence.why(llava, form, measures="share") for form in forms]
    for ds in read:
        np.testing.assert_array_equal(ds.share, read[0].share)
        assert ds.attrs["text"] == "ada bo" and ds.picture.startswith("data:image/png;base64,")
    whence.report(read[0], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert '"kind":"picture"' in page and page.count("data:image/png") == 1


def test_what_is_not_read_is_refused_by_name(llava):
    inputs = given("llava")
    with pytest.raises(Unsupported, match="Where Qwen3VLForConditionalGeneration puts the parts of a picture"):
        whence.why(whence.load(build("qwen3_vl"), TOKENIZER), given("qwen3_vl"))
    with pytest.raises(BadInput, match="LlamaForCausalLM reads no pictures, and one was given"):
        whence.why(tiny.model("llama"), inputs)
    fewer = inputs | {"input_ids": inputs["input_ids"][:, :10]}
    with pytest.raises(BadInput, match="has 6 tokens of pictures, and 16 were expected"):
        whence.why(llava, fewer)
    with pytest.raises(BadInput, match="without padding"):
        whence.why(llava, inputs | {"attention_mask": torch.zeros_like(inputs["input_ids"])})
    with pytest.raises(BadInput, match="was loaded without a processor of pictures"):
        whence.why(whence.load(build("llava"), TOKENIZER), (np.zeros((24, 24, 3), "uint8"), "ada bo"))
    for asked in ({"position": 2}, {"token": 7}):
        with pytest.raises(BadInput, match="An answer says what is predicted at each place"):
            whence.why(llava, inputs, generate=2, **asked)


def test_a_page_shows_what_tokens_of_a_picture_see_of_each_other():
    from whence.page.payload import payload

    for name, causal in {"gemma3": False, "llava": True}.items():
        ds = whence.measure(whence.load(build(name), TOKENIZER), given(name), ["attention"])
        assert payload(ds)["causal"] is causal


def test_parts_of_a_picture_between_blocks_are_noticed(monkeypatch):
    """Qwen3-VL adds them to the states; with a text alone it is read."""
    monkeypatch.setitem(MIXING, "qwen3_vl", QWEN)
    model = whence.load(build("qwen3_vl"), TOKENIZER)
    assert whence.why(model, "ada bo", measures="share").sizes["predicted"] == 1
    with pytest.raises(Unsupported, match=r"every block reads what the one before gave.*with a picture it is not"):
        whence.measure(model, mixed.given("qwen3_vl"), ["mixing"])
