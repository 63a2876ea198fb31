"""Where the tokens of a picture or a sound stand: the row and column of a patch, the seconds of a frame."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from whence.errors import Unsupported
from whence.models.anatomy import Anatomy
from whence.models.block import Batch
from whence.models.capture import arguments_of, borrowed, reader, run
from whence.models.hooks import Reached, here
from whence.models.inputs import sides

RATE = 16_000  # samples per second of every family in the table, where no processor says otherwise
HOP = 160  # samples from one column of Whisper's spectrum to the next
SECOND = {"deit": "[DIST]"}  # the special token behind [CLS]; registers elsewhere


@dataclass(frozen=True)
class Places:
    """The name of every token, whether it is special (stands for no part of the input), and its coordinates."""

    tokens: list[str]
    special: list[bool]
    coordinates: Mapping[str, Sequence[int | float]]


def places(anatomy: Anatomy, batch: Batch, processor: Any = None) -> Places:
    """Of one picture or sound; refused where the tokens are not as many as its parts."""
    assert batch.inputs is not None
    name = next(name for name in PLACING if name in batch.inputs)
    return PLACING[name](anatomy, batch.inputs[name], batch.ids.shape[1], processor)


def grid(config: Any, pixels: Tensor) -> tuple[int, int]:
    """Rows and columns of the patches."""
    height, width = sides(config.patch_size)
    return pixels.shape[-2] // height, pixels.shape[-1] // width


def _patches(anatomy: Anatomy, pixels: Tensor, tokens: int, processor: Any) -> Places:
    """Row by row, after the tokens that stand for no patch."""
    rows, columns = grid(anatomy.config, pixels)
    names = _specials(anatomy.family, tokens - rows * columns)
    if len(names) + rows * columns != tokens:
        raise Unsupported(
            f"{type(anatomy.model).__name__} reads {rows} times {columns} patches as {tokens} tokens, so their places"
            " are not known."
        )
    cells = [(row, column) for row in range(rows) for column in range(columns)]
    return Places(
        names + [f"r{row}c{column}" for row, column in cells],
        [True] * len(names) + [False] * len(cells),
        {
            "row": [-1] * len(names) + [row for row, _ in cells],
            "column": [-1] * len(names) + [column for _, column in cells],
        },
    )


def _specials(family: str, count: int) -> list[str]:
    behind = [SECOND[family]] if family in SECOND else [f"[REG{number}]" for number in range(1, count)]
    return ["[CLS]", *behind][:count] if count > 0 else []


def _frames(anatomy: Anatomy, samples: Tensor, tokens: int, processor: Any) -> Places:
    """The samples that the convolutions read for a frame; positions are told by a convolution over more of them."""
    config, rate = anatomy.config, _rate(processor)
    step, width = math.prod(config.conv_stride), 1
    for kernel, stride in zip(reversed(config.conv_kernel), reversed(config.conv_stride), strict=True):
        width = (width - 1) * stride + kernel
    _check_frames(anatomy, (samples.shape[-1] - width) // step + 1, tokens)
    return _timed(tokens, step / rate, width / rate)


def _halves(anatomy: Anatomy, spectrum: Tensor, tokens: int, processor: Any) -> Places:
    """Two columns of the spectrum to a frame."""
    extractor = getattr(processor, "feature_extractor", processor)
    _check_frames(anatomy, spectrum.shape[-1] // 2, tokens)
    step = 2 * getattr(extractor, "hop_length", HOP) / _rate(processor)
    return _timed(tokens, step, step)


def _rate(processor: Any) -> int:
    return int(getattr(getattr(processor, "feature_extractor", processor), "sampling_rate", RATE))


def _check_frames(anatomy: Anatomy, frames: int, tokens: int) -> None:
    if frames != tokens:
        raise Unsupported(
            f"{type(anatomy.model).__name__} reads {frames} frames as {tokens} tokens, so their times are not known."
        )


def _timed(tokens: int, step: float, width: float) -> Places:
    starts = [round(number * step, 6) for number in range(tokens)]
    return Places(
        [f"{start:.2f}s" for start in starts],
        [False] * tokens,
        {"start": starts, "end": [round(start + width, 6) for start in starts]},
    )


PLACING = {"pixel_values": _patches, "input_values": _frames, "input_features": _halves}


def misplaced(anatomy: Anatomy, batch: Batch) -> float:
    """How many of a few patches are not read by their own token and no other patch's."""
    assert batch.inputs is not None
    pixels = batch.inputs["pixel_values"]
    height, width = sides(anatomy.config.patch_size)
    coordinates = places(anatomy, batch).coordinates
    cells = [cell for cell in zip(coordinates["row"], coordinates["column"], strict=True) if cell[0] >= 0]
    before, missed = _embedded(anatomy, batch), 0
    for row, column in {cells[0], cells[len(cells) // 3], cells[-1]}:
        changed = pixels.clone()
        area = changed[..., int(row) * height : int(row + 1) * height, int(column) * width : int(column + 1) * width]
        area.neg_()
        states = _embedded(anatomy, Batch.of_inputs({**batch.inputs, "pixel_values": changed}, batch.ids.shape[1]))
        moved = (states != before).any(dim=-1).nonzero().flatten().tolist()
        missed += [(coordinates["row"][token], coordinates["column"][token]) for token in moved] != [(row, column)]
    return float(missed)


def _embedded(anatomy: Anatomy, batch: Batch) -> Tensor:
    """What the first block reads."""
    states: list[Tensor] = []

    def stop(block: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        states.append(args[0] if args else kwargs["hidden_states"])
        raise Reached

    handle = anatomy.blocks[0].register_forward_pre_hook(here(stop), with_kwargs=True)
    try:
        with borrowed(anatomy.model, anatomy.seam), torch.no_grad():
            run(reader(anatomy, batch), batch, **arguments_of(anatomy))
    except Reached:
        return states[0][0]
    finally:
        handle.remove()
    raise Unsupported(f"{type(anatomy.model).__name__} does not run its first block.")
