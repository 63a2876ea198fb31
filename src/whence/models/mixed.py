"""Texts with pictures in them, for vision-language decoders: which tokens stand for which part of a picture."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from whence.errors import BadInput, Unsupported
from whence.models.anatomy import Anatomy
from whence.models.arguments import accepted
from whence.models.block import Batch
from whence.models.coded import coded
from whence.models.encode import Encoded, aligned
from whence.models.inputs import TEXT, sides
from whence.text.sentence import Sentence

PIXELS = "pixel_values"
Inputs = Mapping[str, Tensor]
Grid = tuple[int, int]  # rows and columns of tokens


@dataclass(frozen=True)
class Mixing:
    """How a family puts pictures into a text: the grid of tokens of each, the name of the input that marks them, and
    each picture's pixels.
    """

    grids: Callable[[Any, Inputs], list[Grid]]
    marks: str | None = None
    pixels: Callable[[Any, Inputs], Iterator[Float[Tensor, "c h w"]]] = lambda config, inputs: iter(inputs[PIXELS])


def _patches(config: Any, inputs: Inputs) -> list[Grid]:
    """LLaVA: a token for every patch."""
    vision, strategy = config.vision_config, config.vision_feature_select_strategy
    if strategy != "default":
        raise Unsupported(f"LLaVA with [CLS] among its tokens ({strategy!r}) is not read; give the text alone.")
    return [_grid(pixels, sides(vision.patch_size)) for pixels in inputs[PIXELS]]


def _averaged(config: Any, inputs: Inputs) -> list[Grid]:
    """Gemma 3: so many tokens to a picture, in a square."""
    side = round(config.mm_tokens_per_image**0.5)
    return [(side, side)] * len(inputs[PIXELS])


def _tiles(config: Any, inputs: Inputs) -> list[Grid]:
    """Idefics 3 and SmolVLM: several patches shuffled into a token, tile after tile."""
    side = config.vision_config.patch_size * config.scale_factor
    return [_grid(pixels, (side, side)) for pixels in _of_tiles(config, inputs)]


def _of_tiles(config: Any, inputs: Inputs) -> Iterator[Float[Tensor, "c h w"]]:
    """Tiles that are zero throughout fill the batch up, and the model leaves them out."""
    return (tile for tile in inputs[PIXELS][0] if bool(tile.any()))


def _merged(config: Any, inputs: Inputs) -> list[Grid]:
    """Qwen-VL: patches of the picture's own shape, several merged into a token."""
    merge = config.vision_config.spatial_merge_size
    return [(rows // merge, columns // merge) for _, rows, columns in _shapes(inputs)]


def _shapes(inputs: Inputs) -> list[list[int]]:
    if "image_grid_thw" not in inputs:
        raise BadInput("Qwen-VL reads pictures by their grids, and image_grid_thw was not given; give it too.")
    return inputs["image_grid_thw"].tolist()


def _unflattened(config: Any, inputs: Inputs) -> Iterator[Float[Tensor, "c h w"]]:
    """From rows of patches, four and four next to each other, as Qwen's processor flattens them."""
    vision, start = config.vision_config, 0
    merge, side = vision.spatial_merge_size, vision.patch_size
    for frames, rows, columns in _shapes(inputs):
        flat = inputs[PIXELS][start : start + frames * rows * columns]
        start += len(flat)
        yield rearrange(
            flat,
            "(f r c i j) (k t y x) -> f k t (r i y) (c j x)",
            f=frames,
            r=rows // merge,
            c=columns // merge,
            i=merge,
            j=merge,
            t=vision.temporal_patch_size,
            y=side,
            x=side,
        )[0, :, 0]


def _grid(pixels: Tensor, side: Grid) -> Grid:
    return pixels.shape[-2] // side[0], pixels.shape[-1] // side[1]


QWEN = Mixing(_merged, "mm_token_type_ids", _unflattened)
MIXING: dict[str, Mixing] = {
    "llava": Mixing(_patches),
    "gemma3": Mixing(_averaged, "token_type_ids"),
    "idefics3": Mixing(_tiles, pixels=_of_tiles),
    "smolvlm": Mixing(_tiles, pixels=_of_tiles),
    "qwen2_vl": QWEN,
    "qwen2_5_vl": QWEN,
}


def mixing_of(anatomy: Anatomy) -> Mixing:
    """Of this model; refused by name where the table has none."""
    name = anatomy.model.config.model_type
    if PIXELS not in accepted(anatomy.model):
        raise BadInput(f"{type(anatomy.model).__name__} reads no pictures, and one was given; give it a text.")
    if name not in MIXING:
        raise Unsupported(
            f"Where {type(anatomy.model).__name__} puts the parts of a picture is not known to whence; give it a text,"
            f" or take one of these: {', '.join(MIXING)}."
        )
    return MIXING[name]


def mixed(anatomy: Anatomy, tokenizer: Any, processed: Inputs) -> Encoded:
    """The tokens of a text with pictures, each at its place in the text or in its picture; without the pictures
    themselves.
    """
    mixing, config = mixing_of(anatomy), anatomy.model.config
    inputs = _marked(anatomy, mixing, processed)
    ids = inputs[TEXT][0].tolist()
    read = aligned(anatomy, tokenizer, coded(tokenizer, Sentence("", ids=tuple(ids))))
    grids = mixing.grids(config, inputs)
    own = [place for place, token in enumerate(ids) if token == _picture_token(config)]
    cells = [(number, *divmod(cell, grid[1])) for number, grid in enumerate(grids) for cell in range(math.prod(grid))]
    if len(own) != len(cells):
        raise BadInput(
            f"The text has {len(own)} tokens of pictures, and {len(cells)} were expected of pictures of this size; give"
            " what the model's own processor makes of them."
        )
    at = dict(zip(own, cells, strict=True))
    several = len(grids) > 1
    tokens = [_named(at[place], several) if place in at else token for place, token in enumerate(read.tokens)]
    places = {
        name: [at[place][axis] if place in at else -1 for place in range(len(ids))]
        for axis, name in enumerate(("picture", "row", "column"))
    }
    return replace(
        read,
        batch=Batch.of_inputs(inputs, len(ids)),
        tokens=tokens,
        words=["" if place in at else word for place, word in enumerate(read.words)],
        special=[flag and place not in at for place, flag in enumerate(read.special)],
        spans=[None if place in at else span for place, span in enumerate(read.spans)],
        parts=[None if place in at else part for place, part in enumerate(read.parts)],
        words_over=[[] if place in at else over for place, over in enumerate(read.words_over)],
        places=places,
    )


def pictures(anatomy: Anatomy, inputs: Inputs) -> Iterator[Float[Tensor, "c h w"]]:
    """The pixels of every picture, or tile of one, as the model reads it."""
    return mixing_of(anatomy).pixels(anatomy.model.config, inputs)


def longer(inputs: Inputs, ids: list[int]) -> dict[str, Tensor]:
    """The same inputs with more of a text behind them."""
    row = torch.tensor([ids])
    also = {name: torch.zeros_like(row) for name in inputs if name.endswith("token_type_ids")}
    more = {TEXT: row, "attention_mask": torch.ones_like(row)} | also
    return {name: torch.cat([value, more[name]], dim=1) if name in more else value for name, value in inputs.items()}


def _marked(anatomy: Anatomy, mixing: Mixing, processed: Inputs) -> dict[str, Tensor]:
    """With the input that says which tokens are those of pictures: without it they would be read as text."""
    ids = processed[TEXT]
    if ids.ndim != 2 or len(ids) != 1 or not bool(processed.get("attention_mask", torch.ones(1)).all()):
        raise BadInput("One text is measured at a time, without padding; give input_ids of one row.")
    if mixing.marks is None or mixing.marks in processed:
        return dict(processed)
    return dict(processed) | {mixing.marks: (ids == _picture_token(anatomy.model.config)).long()}


def _picture_token(config: Any) -> int:
    return int(getattr(config, "image_token_id", None) or config.image_token_index)


def _named(cell: tuple[int, int, int], several: bool) -> str:
    number, row, column = cell
    return f"p{number}r{row}c{column}" if several else f"r{row}c{column}"
