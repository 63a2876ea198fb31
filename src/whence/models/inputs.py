"""What a model reads, by the name of its input: token ids, pictures or sounds; and a random one to probe it by."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from whence.errors import Unsupported
from whence.models.arguments import accepted
from whence.models.block import Batch
from whence.models.capture import borrowed, hearing, run
from whence.models.hooks import Reached

TEXT = "input_ids"


@dataclass(frozen=True)
class Kind:
    """What one is called, and the shape of a random one for a model of this configuration that has so many tokens,
    where the configuration leaves a choice.
    """

    name: str
    shape: Callable[[Any, int], tuple[int, ...]]


def reads(model: nn.Module) -> str:
    """The name of the model's input; token ids where it reads a text beside pictures."""
    names = accepted(model)
    name = next((name for name in (TEXT, *KINDS) if name in names), None)
    if name is None:
        raise Unsupported(
            f"{type(model).__name__} takes no token ids (input_ids) and nothing else that whence reads"
            f" ({', '.join(KINDS)})."
        )
    return name


def reads_alone(model: nn.Module) -> bool:
    """Whether it reads pictures or sounds and no text, nor the beginning of an answer."""
    names = accepted(model)
    return not names & {TEXT, "decoder_input_ids"} and bool(names & KINDS.keys())


def textless(model: nn.Module) -> str:
    """Why a model takes no text, as the beginning of a sentence."""
    return f"{type(model).__name__} reads {KINDS[reads(model)].name}s and no text"


def of_inputs(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> Batch:
    """A batch of what a processor gave, with as many tokens as the blocks have of it."""
    return Batch.of_inputs(inputs, 0 if TEXT in inputs else _tokens(model, inputs))


def random_input(model: PreTrainedModel, length: int) -> Batch:
    """A picture or sound of random numbers, the same every time; of so many tokens where that is free."""
    name, config = reads(model), _config(model)
    try:
        shape = KINDS[name].shape(config, length)
    except AttributeError as error:
        raise Unsupported(
            f"The shape of what {type(model).__name__} reads ({name}) is not known to whence ({error})."
        ) from error
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    return of_inputs(model, {name: values})


def _tokens(model: PreTrainedModel, inputs: Mapping[str, Tensor]) -> int:
    """How many tokens the first attention has, where the pass is stopped."""
    counts: list[int] = []

    def count(module: nn.Module, weights: Tensor, *_: Any) -> None:
        counts.append(weights.shape[-1])
        raise Reached

    with borrowed(model), hearing(count), torch.no_grad(), suppress(Reached):
        run(model, Batch.of_inputs(inputs, 1))
    if not counts:
        raise Unsupported(
            f"{type(model).__name__} does not attend through transformers' attention interface, so its tokens are not"
            " known."
        )
    return counts[0]


def _config(model: PreTrainedModel) -> Any:
    return getattr(model.config, "vision_config", model.config)


def _pixels(config: Any, length: int) -> tuple[int, ...]:
    return 1, config.num_channels, *sides(config.image_size)


def sides(size: int | Iterable[int]) -> tuple[int, int]:
    """Height and width."""
    height, width = (size, size) if isinstance(size, int) else size
    return height, width


def _samples(config: Any, length: int) -> tuple[int, ...]:
    """So many that the convolutions leave `length` frames."""
    for kernel, stride in zip(reversed(config.conv_kernel), reversed(config.conv_stride), strict=True):
        length = (length - 1) * stride + kernel
    return 1, length


def _spectrum(config: Any, length: int) -> tuple[int, ...]:
    """Whisper reads thirty seconds at a time, whatever was said, with a convolution that halves the frames."""
    return 1, config.num_mel_bins, 2 * config.max_source_positions


KINDS: dict[str, Kind] = {
    "pixel_values": Kind("picture", _pixels),
    "input_values": Kind("sound", _samples),
    "input_features": Kind("sound", _spectrum),
}
