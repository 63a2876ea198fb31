"""The inputs of a forward pass: token ids and mask, segments where the model has some, positions where padding shifts
them; or what the model's own processor gave.
"""

import inspect
import math
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from whence.errors import BadInput
from whence.models.block import Batch
from whence.models.pieces import device_of

OWN_TABLE = "token_type_embeddings"  # its name in every family that has one
SAME_OR_OTHER = "seg_embed"  # of XLNet and Funnel, which only compare the segments of two tokens


def arguments(model: PreTrainedModel, batch: Batch, own_positions: bool = False) -> dict[str, Any]:
    """Left padding gets position ids of its own: learned positions would shift silently."""
    if batch.split is not None:
        return _of_both(model, batch)
    if batch.inputs is not None:
        return {name: _placed(model, value) for name, value in batch.inputs.items()} | {"use_cache": False}
    _check_ids(model, batch.ids)
    device = device_of(model)
    mask = batch.mask.to(device)
    inputs = {"input_ids": batch.ids.to(device), "attention_mask": mask.long(), "use_cache": False}
    if batch.segments is not None and (segments := _segments(model)) > 1:
        _check_segments(batch.segments, segments)
        inputs["token_type_ids"] = batch.segments.to(device)
    if not own_positions and not bool(mask[:, 0].all()):
        inputs["position_ids"] = (mask.long().cumsum(dim=1) - 1).clamp(min=0)
    return inputs


def _of_both(model: PreTrainedModel, batch: Batch) -> dict[str, Any]:
    """The encoder's inputs, and the decoder's by names of their own."""
    prefix, device = batch.prefix, device_of(model)
    _check_ids(model.get_decoder(), prefix.ids)
    rest = {"decoder_input_ids": prefix.ids.to(device), "decoder_attention_mask": prefix.mask.long().to(device)}
    inputs = arguments(model.get_encoder(), batch.source)
    if batch.encoded is not None:
        known = {name: value for name, value in inputs.items() if name in ("attention_mask", "use_cache")}
        return known | {"encoder_outputs": BaseModelOutput(batch.encoded)} | rest
    return {name: value for name, value in inputs.items() if name != "position_ids"} | rest


def accepted(model: nn.Module) -> set[str]:
    """The arguments that the model's forward names; those of the inner model where it passes them all on (BART)."""
    names = set(inspect.signature(model.forward).parameters)
    inner = [child for child in model.children() if isinstance(child, PreTrainedModel)]
    return accepted(inner[0]) if names == {"args", "kwargs"} and len(inner) == 1 else names


def _placed(model: PreTrainedModel, value: Tensor) -> Tensor:
    """Where the model is, and pixels and samples in its precision."""
    return value.to(device_of(model), model.dtype if value.is_floating_point() else value.dtype)


def _segments(model: nn.Module) -> int | float:
    """How many segments the model distinguishes. Without a table of its own it is given none: GPT-2, CTRL and XLM
    would add the word embeddings with these ids, Gemma 3 would take a second text for an image.
    """
    for name, parameter in model.named_parameters():
        *_, holder, last = ["", *name.split(".")]
        if last == SAME_OR_OTHER:
            return math.inf
        if holder == OWN_TABLE:
            return len(parameter)
    return 0


def _check_segments(segments: Tensor, known: int | float) -> None:
    if int(segments.max()) >= known:
        raise BadInput(
            f"The tokenizer gave segment {int(segments.max())} and the model has {known}, counted from 0; load the"
            " tokenizer that belongs to it."
        )


def _check_ids(model: PreTrainedModel, ids: Tensor) -> None:
    """A tokenizer that was given new tokens, or is another model's, has ids that the embedding has no row for."""
    try:
        table = model.get_input_embeddings()
    except NotImplementedError:  # CANINE embeds characters by several hashes
        return
    largest = int(ids.max())
    if isinstance(table, nn.Embedding) and largest >= table.num_embeddings:
        raise BadInput(
            f"The tokenizer gave token {largest:,} and the model has {table.num_embeddings:,}, counted from 0; load the"
            " tokenizer that belongs to it, or resize its embedding (resize_token_embeddings)."
        )
