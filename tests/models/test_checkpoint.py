"""What a checkpoint's files may not do: name others, lead elsewhere, or contradict each other."""

import json
import pickle
import random
from collections import Counter
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import tests.tiny as tiny
import whence
from tests.families import build
from whence.errors import BadInput, WhenceError


@pytest.fixture
def folder(tmp_path):
    """A tiny BERT in several safetensors files with an index."""
    build("bert").save_pretrained(tmp_path, max_shard_size="20KB")
    tiny.tokenizer().save_pretrained(tmp_path)
    return tmp_path


def change(file: Path, **settings) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


class Opened(Exception):
    """A pickle was opened."""


class Trap:
    def __reduce__(self):
        return _spring, ()


def _spring():
    raise Opened


@pytest.mark.parametrize("name", ["weights.bin", "{outside}", "../other/w.safetensors", "sub/w.safetensors", 3, None])
def test_an_index_names_only_safetensors_files_beside_it(folder, name, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "model.safetensors"
    torch.save({}, folder / "weights.bin")
    index = folder / "model.safetensors.index.json"
    shards = json.loads(index.read_text())["weight_map"]
    first = next(iter(shards))
    named = name.format(outside=outside) if isinstance(name, str) else name
    change(index, weight_map=shards | {first: named})
    with pytest.raises(BadInput, match=r"only \*\.safetensors files beside it"):
        whence.load(folder)


@pytest.mark.parametrize("content", ["[]", "{}", '{"weight_map": []}', "[" * 100_000, "nothing"])
def test_an_index_of_another_shape(folder, content):
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(BadInput, match=r"index\.json"):
        whence.load(folder)


def test_a_configuration_that_names_weights(folder):
    (folder / "adapter_model.bin").write_bytes(pickle.dumps(Trap()))
    change(folder / "config.json", transformers_weights="adapter_model.bin")
    with pytest.raises(BadInput, match="transformers_weights"):
        whence.load(folder)


def test_shards_may_be_links_as_in_the_cache_of_the_hub(folder, tmp_path_factory):
    blobs = tmp_path_factory.mktemp("blobs")
    for number, shard in enumerate(sorted(folder.glob("*.safetensors"))):
        shard.rename(blobs / str(number))
        shard.symlink_to(blobs / str(number))
    assert whence.load(folder).anatomy.family == "bert"


def test_an_adapter_is_not_followed_to_another_model(folder, tmp_path_factory):
    adapter = tmp_path_factory.mktemp("adapter")
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(folder)}))
    with pytest.raises(BadInput, match="whose model is elsewhere"):
        whence.load(adapter)


def test_a_pickled_adapter_beside_its_model(folder):
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "target_modules": ["query"]}))
    (folder / "adapter_model.bin").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(BadInput, match=r"without adapter_model\.safetensors"):
        whence.load(folder)


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("adapter_config.json", {"base_model_name_or_path": "some/other"}, "whose model is elsewhere"),
        ("model.safetensors.index.json", {"weight_map": {"a": "weights.bin"}}, "only "),
    ],
)
def test_the_same_for_a_name_on_the_hub(tmp_path, monkeypatch, file, content, says):
    """A cache as the Hub's client leaves it, with one file in it."""
    snapshot = tmp_path / "models--a--b" / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / file).write_text(json.dumps(content))
    (tmp_path / "models--a--b" / "refs").mkdir()
    (tmp_path / "models--a--b" / "refs" / "main").write_text("0" * 40)
    with pytest.raises(BadInput, match=says):
        whence.load("a/b", model_kwargs={"cache_dir": str(tmp_path)})


NOT_FITTING = {
    "a larger width": ({"hidden_size": 128}, r"shape \[97, 64\] in the weights and \[97, 128\]"),
    "a width that no memory holds": ({"hidden_size": 4_000_000}, "in the weights and"),
    "a vocabulary that no memory holds": ({"vocab_size": 10**12}, "in the weights and"),
    "no heads": ({"num_attention_heads": 0}, "at least 1"),
    "fewer heads than none": ({"num_attention_heads": -4}, "at least 1"),
    "no layers": ({"num_hidden_layers": 0}, "at least 1"),
    "a word for a number": ({"hidden_size": "64"}, "hidden_size.*expected int"),
    "a class that is no model": ({"architectures": ["Trainer"]}, "not a model of transformers"),
    "a function": ({"architectures": ["pipeline"]}, "not a model of transformers"),
    "a number for a class": ({"architectures": [3]}, "not a list of names"),
    "a million layers": ({"num_hidden_layers": 10**6}, "1,000,000, and the weights are 58 tensors"),
    "fewer layers than in the file": ({"num_hidden_layers": 1}, "more layers than its config.json says"),
    "more layers than in the file": ({"num_hidden_layers": 5}, "no weights for"),
}


@pytest.mark.parametrize(("settings", "says"), NOT_FITTING.values(), ids=NOT_FITTING)
def test_a_configuration_that_does_not_fit_its_weights(folder, settings, says):
    change(folder / "config.json", **settings)
    with pytest.raises(BadInput, match=says):
        whence.load(folder)


@pytest.mark.parametrize("depth", [900, 100_000])
def test_a_configuration_nested_too_deeply(folder, depth):
    (folder / "config.json").write_text('{"model_type": "bert", "a":' + "[" * depth + "]" * depth + "}")
    with pytest.raises(BadInput, match="config"):
        whence.load(folder)


def test_a_configuration_of_unusual_size(folder):
    change(folder / "config.json", more="x" * 10_000_000)
    with pytest.raises(BadInput, match="bytes"):
        whence.load(folder)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_a_tokenizer_file_that_is_a_list(folder, name):
    (folder / name).write_text("[1, 2]")
    with pytest.raises(BadInput, match="The tokenizer of"):
        whence.load(folder)


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_weights_that_are_not_floating_point_numbers(folder, dtype):
    shard = next(iter(sorted(folder.glob("*.safetensors"))))
    save_file({name: value.to(dtype) for name, value in load_file(shard).items()}, shard, metadata={"format": "pt"})
    with pytest.raises(BadInput, match="is stored as"):
        whence.load(folder)


def test_weights_of_several_precisions_are_read_as_one(folder):
    shard = next(iter(sorted(folder.glob("*.safetensors"))))
    save_file({name: value.half() for name, value in load_file(shard).items()}, shard, metadata={"format": "pt"})
    assert {weight.dtype for weight in whence.load(folder).model.parameters()} == {torch.float32}


@pytest.mark.parametrize("header", [b"", b"\xff" * 8, b"\x02" + b"\0" * 7 + b"[]", b"\x09" + b"\0" * 7 + b'{"a": [1]'])
def test_a_safetensors_header_of_another_shape(folder, header):
    next(folder.glob("*.safetensors")).write_bytes(header)
    with pytest.raises(BadInput, match="safetensors file is broken"):
        whence.load(folder)


VALUES = [None, True, 0, -1, 3, 10**7, 10**30, 1e300, 0.5, "", "nonsense", [], [1], {}, {"a": {"b": 1}}, float("nan")]


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_mutated_configurations_load_or_are_refused_in_one_sentence(tmp_path, family):
    """Sixty seeded mutations of each: a setting gets another value, or goes."""
    build(family).save_pretrained(tmp_path)
    file, chosen = tmp_path / "config.json", random.Random(family)
    settings = json.loads(file.read_text())
    outcomes = Counter()
    for _ in range(60):
        name = chosen.choice(sorted(settings))
        mutated = settings | {name: chosen.choice(VALUES)} if chosen.random() < 0.9 else without(settings, name)
        file.write_text(json.dumps(mutated))
        outcomes[attempt(tmp_path)] += 1
    assert outcomes["loaded"] and outcomes["refused"]


def without(settings: dict, name: str) -> dict:
    return {other: value for other, value in settings.items() if other != name}


def attempt(folder: Path) -> str:
    try:
        whence.load(folder, tiny.tokenizer())
    except WhenceError as error:
        assert "\n" not in str(error)
        return "refused"
    return "loaded"
