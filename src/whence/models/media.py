"""A picture or a sound before a processor reads it: of a file, an array or an image, in RGB or as a row of samples."""

import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from whence._extras import require
from whence.errors import BadInput

LONGEST_NAME = 255  # characters of a file's name and the folders around it
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
WHITE, WHITE_16 = 255, 2**16 - 1
PICTURES = "reads pictures (give one as a file, a PIL image, an array, or what its processor gives)"
SOUNDS = "reads sounds (give one as a .wav file, a row of samples at the processor's rate, or what the processor gives)"
SHAPES = "(height, width), (height, width, colours) or (colours, height, width)"


def is_file(item: str) -> bool:
    """Whether a text names a file that is here."""
    return len(item) < LONGEST_NAME and Path(item).expanduser().is_file()


def is_picture(item: str) -> bool:
    """The same where a text could be given as well: a name alone that ends as those of pictures do is no text."""
    if is_file(item):
        return True
    if item.lower().endswith(ENDINGS) and not any(map(str.isspace, item)):
        raise BadInput(
            f"{item[:80]!r} is the name of a picture, and no such file is here; give the path of one that is."
        )
    return False


def picture(item: object, reader: str) -> Any:
    """As a PIL image in RGB, upright as its camera was held: what is transparent or grey is no other picture.

    `reader` is the name of the model, for what cannot be read.
    """
    require("Pictures need", "image", "PIL")
    from PIL import Image, UnidentifiedImageError

    if isinstance(item, np.ndarray | Tensor):
        return Image.fromarray(_colours(np.asarray(item.cpu() if isinstance(item, Tensor) else item)))
    if isinstance(item, Image.Image):
        return _rgb(item)
    if not isinstance(item, str | Path):
        raise BadInput(f"{reader} {PICTURES}, and {type(item).__name__} was given.")
    try:
        with Image.open(Path(item).expanduser()) as opened:
            return _rgb(opened)
    except (OSError, UnidentifiedImageError, ValueError) as error:
        raise BadInput(f"{reader} {PICTURES}, and {str(item)[:80]!r} is no file of a picture.") from error


def _rgb(image: Any) -> Any:
    from PIL import Image, ImageOps

    upright = ImageOps.exif_transpose(image)
    if not upright.mode.startswith(("I", "F")):
        return upright.convert("RGB")
    levels = np.asarray(upright)  # of which pillow would make everything above 255 white
    if levels.max() > WHITE or upright.mode != "I":
        levels = levels if upright.mode == "F" else levels.clip(0, WHITE_16) / WHITE_16
    return Image.fromarray(_colours(levels))


def _colours(pixels: np.ndarray) -> np.ndarray:
    """Height, width and three colours, from 0 to 255; numbers that are no whole ones go from 0 to 1 or to 255."""
    pixels = pixels[0] if pixels.ndim == 4 and len(pixels) == 1 else pixels
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    elif pixels.ndim == 3 and pixels.shape[-1] not in (1, 3, 4):
        pixels = np.moveaxis(pixels, 0, -1)
    if pixels.ndim != 3 or pixels.shape[-1] not in (1, 3, 4) or not pixels.size:
        raise BadInput(f"An array of a picture has the shape {SHAPES}, and {pixels.shape} was given.")
    if pixels.dtype.kind not in "uif" or not (np.isfinite(pixels).all() and 0 <= pixels.min() <= pixels.max() <= WHITE):
        raise BadInput(
            "An array of a picture has numbers from 0 to 255, or from 0 to 1, and others were given; give what is"
            ' already scaled to the model as {"pixel_values": …}.'
        )
    if pixels.dtype.kind == "f" and pixels.max() <= 1:
        pixels = pixels * WHITE
    colours = pixels[..., :3].round().astype(np.uint8)
    return colours if colours.shape[-1] == 3 else np.repeat(colours, 3, axis=-1)


def sound(item: object, reader: str, rate: int | None) -> Float[np.ndarray, " n"]:
    """A row of samples from -1 to 1; whole numbers are divided by the largest of their kind."""
    if isinstance(item, str | Path) and is_file(str(item)):
        return _wave(Path(item).expanduser(), reader, rate)
    try:
        samples = np.asarray(item.cpu() if isinstance(item, Tensor) else item)
    except ValueError:
        samples = np.array(None)
    if isinstance(item, str | Path) or samples.ndim != 1 or samples.dtype.kind not in "if":
        what = f"{str(item)[:80]!r}" if isinstance(item, str | Path) else _described(item, samples)
        raise BadInput(f"{reader} {SOUNDS}, and {what} was given.")
    if not samples.size:
        raise BadInput("The sound has no samples; give at least one frame of it.")
    scale = 1 if samples.dtype.kind == "f" or isinstance(item, list) else np.iinfo(samples.dtype).max + 1
    return (samples / scale).astype(np.float32)


def _described(item: object, samples: np.ndarray) -> str:
    kind = type(item).__name__
    return f"{kind} of shape {samples.shape}" if isinstance(item, np.ndarray | torch.Tensor) else kind


def _wave(file: Path, reader: str, rate: int | None) -> Float[np.ndarray, " n"]:
    """The samples of a .wav file, the mean of its channels."""
    try:
        with wave.open(str(file), "rb") as opened:
            own, width, channels = opened.getframerate(), opened.getsampwidth(), opened.getnchannels()
            samples = opened.readframes(opened.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        why = f" ({error})" if str(error) else ""
        raise BadInput(f"{reader} {SOUNDS}, and {file.name!r} is no .wav file that can be read{why}.") from error
    wanted = own if rate is None else rate
    if width != 2 or own != wanted:
        raise BadInput(
            f"{file.name!r} has {own:,} samples per second of {8 * width} bits, and {wanted:,} of 16 bits were"
            " expected; convert it, or give its samples as an array."
        )
    if not samples:
        raise BadInput(f"{file.name!r} has no samples; give a sound of at least one frame.")
    read = np.frombuffer(samples, dtype="<i2").reshape(-1, channels).mean(axis=1)
    return (read / 2**15).astype(np.float32)
