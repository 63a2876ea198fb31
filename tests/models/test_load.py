"""Where models come from, and one sentence for everything that cannot be one."""

import socket
import time

import pandas
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModel, BertForMultipleChoice, BertModel, PreTrainedTokenizerFast

import whence
from tests.families import build
from whence.errors import BadInput, Unsupported
from whence.models import builtin


@pytest.fixture
def tokenizer():
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 4, "b": 5, "c": 6}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")


@pytest.fixture
def folder(tmp_path, tokenizer):
    build("bert").save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_the_builtin_model_needs_no_network_and_no_hub(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the built-in model asked for something outside")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("transformers.utils.hub.cached_files", refuse)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", refuse)
    start = time.process_time()
    model = whence.load()
    assert time.process_time() - start < 10  # 2 s of one core; a busy machine is no error
    assert model.model.dtype == torch.float32
    assert (model.anatomy.layers, model.anatomy.heads, model.anatomy.width) == (6, 12, 384)
    assert model.gives == {
        "attention",
        "attention throughout",
        "rows",
        "values",
        "norms",
        "neurons",
        "secant",
        "lm_head",
        "derivatives",
        "left padding",
        "long texts",
    }


def test_the_builtin_model_fills_in_masks(builtin):
    inputs = builtin.tokenizer("The cat sat on the [MASK].", return_tensors="pt")
    with torch.no_grad():
        scores = builtin.model(**inputs).logits[0, 6]
    assert builtin.tokenizer.convert_ids_to_tokens(scores.topk(4).indices) == ["table", "ground", "cat", "floor"]


def test_damaged_builtin_weights_are_noticed(tmp_path):
    from pathlib import Path

    for file in Path(builtin.__file__).parent.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    data = bytearray((Path(builtin.__file__).parent / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(data)
    with pytest.raises(BadInput, match="damaged"):
        builtin.read(tmp_path)


def test_a_real_decoder_from_gguf(smollm2, smollm2_folder):
    """The fixture read the GGUF file through whence.load and kept the table of checks."""
    checks = pandas.read_csv(smollm2_folder / "checks.csv")
    assert checks.passed.all() and checks.error.max() < 1e-5
    assert smollm2.anatomy.family == "llama" and smollm2.anatomy.causal
    assert smollm2.gives == {
        "attention",
        "attention throughout",
        "rows",
        "values",
        "norms",
        "neurons",
        "secant",
        "lm_head",
        "derivatives",
        "left padding",
        "long texts",
    }


def test_a_folder(folder):
    model = whence.load(folder)
    assert model.id == str(folder)
    assert type(model.model).__name__ == "BertForMaskedLM"


def test_a_model_in_memory_stays_where_it_is(tokenizer):
    inner = build("gpt2").train()
    model = whence.load(inner, tokenizer)
    assert model.model is inner and inner.training
    whence.measure(model, "a b c", "attention")
    assert inner.training


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", torch.float64])
def test_dtype_is_what_was_asked(folder, dtype):
    expected = dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype)
    assert whence.load(folder, dtype=dtype).model.dtype == expected


def test_a_head_that_is_not_in_the_checkpoint_is_not_made_up(tmp_path, tokenizer):
    """transformers would fill it with random numbers and only warn."""
    model = build("bert")
    BertModel.from_pretrained(_saved(model.bert, tmp_path)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"BertModel"', '"BertForMaskedLM"'))
    assert "lm_head" not in whence.load(tmp_path).gives


def _saved(model, path):
    model.save_pretrained(path)
    return path


def test_pickled_checkpoints_only_when_asked_for(folder, tokenizer):
    model = AutoModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(BadInput, match=r"pickled checkpoint.*allow_pickle"):
        whence.load(folder)
    assert whence.load(folder, allow_pickle=True).anatomy.layers == 3


def test_a_broken_safetensors_file(folder):
    (folder / "model.safetensors").write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00notjson!")
    with pytest.raises(BadInput, match="broken"):
        whence.load(folder)


def test_a_truncated_safetensors_file(folder):
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(BadInput, match="broken"):
        whence.load(folder)


def test_a_folder_without_weights(folder):
    (folder / "model.safetensors").unlink()
    with pytest.raises(BadInput, match="no weights"):
        whence.load(folder)


def test_a_folder_without_a_tokenizer(folder):
    """transformers would make one up that knows no word."""
    for path in folder.glob("[tv]o*"):
        path.unlink()
    assert not list(folder.glob("tokenizer*"))
    with pytest.raises(BadInput, match="has no tokenizer; save it there too"):
        whence.load(folder)


def test_a_folder_that_is_no_model(tmp_path):
    with pytest.raises(BadInput, match=r"no config\.json"):
        whence.load(tmp_path)


def test_a_configuration_that_is_not_json(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(BadInput):
        whence.load(folder)


@pytest.mark.parametrize(
    ("name", "says"),
    [("nobody/nothing", "Hub"), ("./not-here", "no folder"), ("/not/here/at/all", "no folder"), ("a b", "cannot|Hub")],
)
def test_a_model_that_does_not_exist(name, says):
    with pytest.raises(BadInput, match=says):
        whence.load(name)


def test_a_family_that_is_not_supported(tmp_path, tokenizer):
    from transformers import FNetConfig, FNetForMaskedLM

    FNetForMaskedLM(FNetConfig(vocab_size=97, hidden_size=64, num_hidden_layers=2)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(Unsupported, match="'fnet'"):
        whence.load(tmp_path)


def test_other_bad_input(tokenizer):
    with pytest.raises(BadInput, match="tokenizer"):
        whence.load(build("bert"))
    with pytest.raises(BadInput, match="one of transformers', and str was given"):
        whence.load(build("bert"), "bert")
    with pytest.raises(BadInput, match="tokenizer of its own"):
        whence.load(revision="main")
    with pytest.raises(BadInput, match="Hub id"):
        whence.load(3)
    with pytest.raises(BadInput, match="dtype"):
        whence.load(dtype="int8")
    with pytest.raises(BadInput, match="device"):
        whence.load(device="abacus")


def test_every_error_is_one_sentence(folder):
    (folder / "model.safetensors").unlink()
    for wrong in (folder, "nobody/nothing", "./not-here"):
        with pytest.raises(BadInput) as caught:
            whence.load(wrong)
        assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_the_builtin_model_by_its_name(builtin, monkeypatch):
    monkeypatch.setattr("whence.models.load.builtin.read", lambda: (builtin.model, builtin.tokenizer))
    assert whence.load("whence/builtin").revision == whence.load().revision


@pytest.mark.parametrize("part", [lambda model: model, lambda model: model.base_model.encoder.layer[0]])
def test_a_compiled_model_is_measured_without_compiling(tokenizer, part):
    """Every pass has hooks of its own, and each would be compiled anew."""
    plain, network = build("bert"), build("bert")
    part(network).compile(backend=lambda graph, inputs: pytest.fail("compiled"))
    asked = ["attention", "mixing", "contribution", "value_zeroing"]
    found, expected = (whence.measure(whence.load(one, tokenizer), "a b c", asked) for one in (network, plain))
    assert found.equals(expected)
    assert part(network)._compiled_call_impl is not None


def test_what_reads_several_texts_at_once_is_refused(tokenizer):
    network = BertForMultipleChoice(build("bert").config)
    with pytest.raises(Unsupported, match=r"give the stack inside it: whence\.load\(model\.base_model"):
        whence.load(network, tokenizer)
    assert whence.load(network.base_model, tokenizer).anatomy.family == "bert"
