"""Models in pieces: weights on the host or the disk give the numbers that they give in memory, and go back there."""

import json
import warnings

import numpy as np
import pytest
import torch
from accelerate import cpu_offload, dispatch_model
from safetensors import SafetensorError
from torch import nn
from transformers import AutoModelForImageClassification, LlamaForCausalLM

import whence
from tests import tiny
from tests.families import build
from tests.stacks import PAIR
from tests.stacks import build as build_pair
from tests.towers import build as build_tower
from whence.errors import BadInput, Unsupported
from whence.measures.registry import variables
from whence.models import fingerprint
from whence.models.block import Batch
from whence.models.capture import visit_blocks
from whence.models.pieces import in_pieces

FAMILIES = ["bert", "gpt2", "llama", "gemma2", "gpt_neox", "opt-350m", "xlnet", "mixtral", "bloom", "phi3"]
TEXT = "ada bo [MASK]"
PROMPT = "ada bo"


def on_disk(model, folder, embeddings="disk"):
    """Every second block on the disk, the embeddings and the head too."""
    blocks = next(name for name, part in model.named_modules() if isinstance(part, nn.ModuleList))
    places: dict[str, str] = {}
    for name, part in model.named_modules():
        leaf = not any(True for _ in part.children())
        if leaf and not name.startswith(f"{blocks}."):
            places[name] = embeddings
    places |= {f"{blocks}.{number}": ("cpu", "disk")[number % 2] for number in range(len(model.get_submodule(blocks)))}
    for name, _ in [*model.named_parameters(), *model.named_buffers()]:
        if not any(name.startswith(f"{place}.") for place in places):
            places[name] = "cpu"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of buffers that are named one by one
        return dispatch_model(model, places, main_device="cpu", offload_dir=str(folder), force_hooks=True)


def in_parts(model):
    """Every weight kept apart and copied in when its module runs."""
    return cpu_offload(model, torch.device("cpu"))


def on_host(model, folder):
    return in_parts(model)


def spread(name, folder, how=on_disk):
    return whence.load(how(build(name, pad_token_id=0), folder), tiny.tokenizer())


def everything(model):
    """Every measure that the model gives, and what its predictions rest on."""
    given = [name for name, variable in variables().items() if variable.needs <= model.gives]
    text = PROMPT if model.anatomy.causal else TEXT
    yield whence.measure(model, text, given)
    if "lm_head" in model.gives:
        yield whence.lm_head(model, text)
        if "secant" in model.gives:
            yield whence.why(model, text)


def apart(first, second):
    """The largest difference of any variable, relative to its largest value."""
    assert first.data_vars.keys() == second.data_vars.keys()
    return max(_apart(first[name].values, second[name].values) for name in first.data_vars)


def _apart(one, other):
    if one.dtype.kind != "f":
        return float((one != other).any())
    assert (np.isnan(one) == np.isnan(other)).all()
    return np.nanmax(np.abs(one - other), initial=0) / max(1e-9, np.nanmax(np.abs(one), initial=0))


def blocks_on_disk(model, folder):
    """The same with the embeddings and the head in memory: DeBERTa's head reads the embeddings."""
    return on_disk(model, folder, embeddings="cpu")


PLACES = [*((name, on_disk) for name in FAMILIES), ("deberta-v2", blocks_on_disk), ("llama", on_host)]


@pytest.mark.parametrize(("name", "how"), PLACES)
def test_every_measure_is_that_in_memory(name, how, tmp_path):
    alone, pieces = tiny.model(name), spread(name, tmp_path, how)
    assert in_pieces(pieces.model) and pieces.gives == alone.gives
    before = [parameter.device.type for parameter in pieces.model.parameters()]
    assert "meta" in before
    for expected, measured in zip(everything(alone), everything(pieces), strict=True):
        assert apart(expected, measured) <= 1e-6
    assert [parameter.device.type for parameter in pieces.model.parameters()] == before
    assert fingerprint.hashed(alone) == fingerprint.hashed(pieces)


def test_what_reads_embeddings_that_are_away_is_told_which(tmp_path):
    with pytest.raises(
        Unsupported, match=r"^DebertaV2ForMaskedLM uses weights of a part that is not running .* device map"
    ):
        spread("deberta-v2", tmp_path)


def test_both_stacks_give_what_they_give_in_memory(tmp_path):
    """The encoder's last norm is read by every block of the decoder, long after it ran."""
    alone, pieces = (whence.load(how(build_pair("t5")), tiny.tokenizer()) for how in (lambda model: model, in_parts))
    names = ["attention", "mixing", "contribution"]
    trees = [whence.measure(model, PAIR, names) for model in (alone, pieces)]
    for stack in trees[0].children:
        assert apart(*(tree[stack].to_dataset() for tree in trees)) <= 1e-6
    assert apart(*(whence.why(model, PAIR[0], generate=2) for model in (alone, pieces))) <= 1e-6


def test_pictures_give_what_they_give_in_memory():
    """DINOv2 scales what its branches add by weights of their own."""
    pixels = {"pixel_values": torch.rand(1, 3, 24, 24)}
    alone, pieces = (
        whence.load(how(build_tower("dinov2", AutoModelForImageClassification, num_labels=3)))
        for how in (lambda model: model, in_parts)
    )
    assert pieces.gives == alone.gives
    names = ["attention", "mixing", "block", "contribution"]
    assert apart(*(whence.measure(model, pixels, names) for model in (alone, pieces))) <= 1e-6
    assert apart(*(whence.why(model, pixels, label=1) for model in (alone, pieces))) <= 1e-6


@pytest.mark.parametrize("how", [on_disk, on_host])
def test_one_block_is_there_at_a_time(how, tmp_path):
    """While a block is visited its weights are there and no other's; a pass that is stopped leaves none behind."""
    model, present = spread("llama", tmp_path, how), []
    offloaded = [in_pieces(block) for block in model.anatomy.blocks]

    def visit(block):
        present.append([not next(one.parameters()).is_meta for one in model.anatomy.blocks])

    batch = Batch(torch.tensor([[5, 6, 7]]), torch.ones(1, 3, dtype=torch.bool))
    visit_blocks(model.anatomy, batch, visit, last=2)
    rows = [[not away or number == own for number, away in enumerate(offloaded)] for own in range(2)]
    assert present == rows
    assert [next(block.parameters()).is_meta for block in model.anatomy.blocks] == offloaded


def folder_of(name, folder):
    build(name, pad_token_id=0).save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return folder


def test_a_folder_is_spread_while_it_is_loaded(tmp_path):
    source = folder_of("llama", tmp_path / "model")
    whole = whence.load(source)
    limit = {"cpu": sum(parameter.nbytes for parameter in whole.model.parameters()) // 2}
    pieces = whence.load(source, device_map="auto", max_memory=limit, offload_folder=tmp_path / "away")
    assert in_pieces(pieces.model) and pieces.device.type == "cpu"
    assert sum(parameter.nbytes for parameter in pieces.model.parameters() if not parameter.is_meta) <= limit["cpu"]
    names = ["attention", "mixing", "contribution"]
    assert apart(whence.measure(whole, PROMPT, names), whence.measure(pieces, PROMPT, names)) <= 1e-6
    assert not in_pieces(whence.load(source, device_map="auto").model)
    attributes = whence.measure(pieces, PROMPT, "mixing").attrs
    assert json.loads(attributes["device_map"])["lm_head"] == "disk" and attributes["device"] == "cpu"
    assert "device_map" not in whence.measure(whole, PROMPT, "mixing").attrs


BAD = [
    (
        {"device_map": "nonsense"},
        r"^There is no device map 'nonsense'; use auto, balanced, balanced_low_0, sequential, or",
    ),
    ({"device_map": 3.5}, r"^A device map is a word .* and 3.5 was given\.$"),
    ({"device_map": {"model": "elsewhere"}}, r"^There is no device 'elsewhere' here"),
    (
        {"device_map": {"nobody": "cpu", "": "cpu"}},
        r"^The device map names 'nobody', and LlamaForCausalLM has no",
    ),
    ({"device": "xpu:7"}, r"^There is no device 'xpu:7' here"),
    ({"device": "meta"}, r"^The device 'meta' holds no numbers"),
    (
        {"device": "cpu", "device_map": "auto"},
        r"^Both a device \('cpu'\) and a device_map were given; give one of them\.$",
    ),
    ({"max_memory": {"cpu": 10}}, r"^max_memory is for a model that is spread; give device_map='auto'"),
    ({"device_map": "auto", "max_memory": "10GB"}, r"^max_memory is a table such as"),
    (
        {"device_map": "auto", "max_memory": {"cpu": "lots"}},
        r"^max_memory gives 'cpu' 'lots', and an amount such as 20GB",
    ),
    ({"device_map": "auto", "max_memory": {"moon": 1}}, r"^max_memory names 'moon', which is no device here"),
    ({"device_map": "auto", "offload_folder": "/proc/none"}, r"^The offload folder '/proc/none' cannot be made"),
    ({"model_kwargs": {"device_map": "auto"}}, r"^model_kwargs has device_map; give it to whence.load itself\.$"),
]


@pytest.mark.parametrize(("options", "sentence"), BAD)
def test_what_cannot_be_is_said_before_anything_is_read(options, sentence, tmp_path):
    source = folder_of("llama", tmp_path / "model")
    with pytest.raises(BadInput, match=sentence):
        whence.load(source, **options)


def test_models_that_are_not_spread(tmp_path):
    with pytest.raises(BadInput, match=r"^The built-in model is small"):
        whence.load(device_map="auto")
    with pytest.raises(BadInput, match=r"^A model in memory is left where it is"):
        whence.load(build("llama"), tiny.tokenizer(), device_map="auto")
    with torch.device("meta"):
        empty = LlamaForCausalLM(build("llama").config)
    with pytest.raises(Unsupported, match=r"has weights on the meta device"):
        whence.load(empty, tiny.tokenizer())


def test_without_accelerate_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr("whence._extras.find_spec", lambda name: None)
    with pytest.raises(Unsupported, match=r"^A device map needs accelerate: pip install 'whence\[large\]'\.$"):
        whence.load("anything", device_map="auto")


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    source = folder_of("llama", tmp_path / "model")

    def full(*args, **kwargs):
        raise SafetensorError('IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })')

    monkeypatch.setattr(LlamaForCausalLM, "from_pretrained", full)
    with pytest.raises(BadInput, match=r"^The disk is full, so .* cannot be loaded; make room, or name another"):
        whence.load(source, device_map="auto", offload_folder=tmp_path / "away")
