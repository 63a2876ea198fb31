"""The built-in model: a small English masked LM that needs no network and no Hub. Its card is README.md here."""

import hashlib
import json
from importlib.resources import files
from pathlib import Path

import torch
from safetensors.torch import load
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast
from transformers.initialization import no_init_weights

from whence.errors import BadInput

NAME = "whence/builtin"
SHA256 = "20742d2fd6b54bc599ea7fbc7696afcf87d99b17c57b13f737bfebece523eea8"
_ROLES = ("cls_token", "sep_token", "mask_token", "pad_token", "unk_token", "model_max_length")


def read(folder: Path | None = None) -> tuple[BertForMaskedLM, PreTrainedTokenizerFast]:
    """The model in float32 and its tokenizer, checksum verified."""
    here = folder or Path(str(files(__package__)))
    with no_init_weights():
        model = BertForMaskedLM(BertConfig(**json.loads((here / "config.json").read_text())))
    weights = {name: weight.to(torch.float32) for name, weight in load(_checked(here / "model.safetensors")).items()}
    model.load_state_dict(weights, strict=False, assign=True)
    model.tie_weights()
    return model.eval(), _tokenizer(here)


def _checked(path: Path) -> bytes:
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise BadInput(f"The built-in model's weights ({path.name}) are damaged; install whence again.")
    return data


def _tokenizer(here: Path) -> PreTrainedTokenizerFast:
    settings = json.loads((here / "tokenizer_config.json").read_text())
    return PreTrainedTokenizerFast(
        tokenizer_file=str(here / "tokenizer.json"),
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{role: settings[role] for role in _ROLES},
    )
