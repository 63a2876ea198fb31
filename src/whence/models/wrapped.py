"""The model of transformers inside another library's: nnsight's LanguageModel, TransformerLens' bridge."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from whence.errors import Unsupported
from whence.models.agreement import unlike
from whence.models.locate import probe

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Wrapper:
    """Where a class of another library has transformers' model and its tokenizer."""

    model: str
    tokenizer: str
    inside: str | None = None
    "The child by which the library's own modules, put in the place of the model's, hold what they replaced."


# package and class -> where the model is
WRAPPERS = {
    "nnsight.LanguageModel": Wrapper("_module", "tokenizer"),
    "nnsight.TransformersModel": Wrapper("_module", "tokenizer"),  # what LanguageModel becomes as of 0.8
    "transformer_lens.TransformerBridge": Wrapper("original_model", "tokenizer", inside="_original_component"),
}


def unwrapped(model: object, tokenizer: Any) -> tuple[Any, Any]:
    """The model of transformers and its tokenizer; what no library of the table wraps is given back as it is."""
    row = next((WRAPPERS[name] for name in map(_named, type(model).__mro__) if name in WRAPPERS), None)
    if row is None:
        return model, tokenizer
    network = getattr(model, row.model)
    if row.inside is not None:
        network = _without(network, row.inside)
    return network, getattr(model, row.tokenizer) if tokenizer is None else tokenizer


def _named(kind: type) -> str:
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


def _without(network: PreTrainedModel, inside: str) -> PreTrainedModel:
    """The network as transformers made it, with the same weights; refused if the library's computes something else."""
    original = _replaced(network, inside, {})
    ids = probe(original).ids
    with torch.no_grad():
        error = unlike(original(input_ids=ids).logits, network(input_ids=ids).logits)
    if not error <= TOLERANCE:
        raise Unsupported(
            f"The bridge computes something else than the {type(network).__name__} inside it (the logits differ by"
            f" {error:.1e}), as in compatibility mode; give one whose weights were not processed."
        )
    return original


def _replaced(module: nn.Module, inside: str, done: dict[int, nn.Module]) -> nn.Module:
    """A copy of the tree of modules, each with the weights it has, without the modules between."""
    while (within := module._modules.get(inside)) is not None:
        module = within
    if id(module) not in done:
        done[id(module)] = copied = copy.copy(module)
        children = module._modules.items()
        copied._modules = {name: None if child is None else _replaced(child, inside, done) for name, child in children}
    return done[id(module)]
