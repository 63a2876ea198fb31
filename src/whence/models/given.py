"""What was given to a model, as its tokens: a text, a picture, a sound, or what the model's processor made of it."""

import base64
import io
import wave
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence._extras import require
from whence.errors import BadInput
from whence.models.coded import Coded, coded
from whence.models.encode import Encoded, aligned, encode
from whence.models.inputs import KINDS, TEXT, of_inputs
from whence.models.load import Model
from whence.models.mixed import PIXELS, mixed, mixing_of, pictures
from whence.models.places import places
from whence.models.verify import check_pictured
from whence.text.sentence import Sentence, sentence

LONGEST_NAME = 255  # characters of a file's name and the folders around it
LONGEST = 1024  # pixels of a side of the picture that a Dataset keeps
Processed = dict[str, Tensor]


def facing(model: Model, item: object) -> Model:
    """Of two towers the one that reads what was given; a text that names a file is the picture in it."""
    if model.pictures is None or _is_text(item):
        return model
    return model.pictures


def _is_text(item: object) -> bool:
    if isinstance(item, Mapping):
        return TEXT in item
    if isinstance(item, Tensor | np.ndarray):
        return item.ndim < 2
    return isinstance(item, Sentence | tuple | list) or (isinstance(item, str) and not is_file(item))


def is_file(item: str) -> bool:
    """Whether a text names a file that is here."""
    return len(item) < LONGEST_NAME and Path(item).expanduser().is_file()


def encoded_of(model: Model, item: object, truncate: bool = False) -> Encoded:
    """The tokens of what was given, as the model reads it."""
    if model.reads == TEXT:
        return pictured(model, inputs_with_picture(model, item)) if has_picture(item) else _text(model, item, truncate)
    inputs = _inputs(model, item)
    batch = of_inputs(model.model, inputs)
    placed = places(model.anatomy, batch, model.processor)
    count = len(placed.tokens)
    return Encoded(
        batch=batch,
        tokens=placed.tokens,
        words=[""] * count,
        special=placed.special,
        sentence=Sentence(""),
        spans=[None] * count,
        parts=[None] * count,
        words_over=[[] for _ in range(count)],
        last=count - 1,
        places=placed.coordinates,
        picture=_picture(inputs["pixel_values"], model.processor) if "pixel_values" in inputs else None,
    )


def has_picture(item: object) -> bool:
    """Whether this is a text with a picture: (picture, text), messages with parts, or what a processor made of them."""
    if isinstance(item, Mapping):
        return {TEXT, PIXELS} <= item.keys()
    if isinstance(item, list):
        return any(isinstance(message, Mapping) and isinstance(message.get("content"), list) for message in item)
    return isinstance(item, tuple) and len(item) == 2 and not isinstance(item[0], str) and isinstance(item[1], str)


def pictured(model: Model, inputs: Processed) -> Encoded:
    """The tokens of a text with pictures in it, after a pass of the model was checked on them."""
    encoded = mixed(model.anatomy, model.tokenizer, inputs)
    check_pictured(model.anatomy, encoded.batch)
    shown = [_picture(pixels[None], model.processor) for pixels in pictures(model.anatomy, inputs)]
    return replace(encoded, picture=None if None in shown else "\n".join(filter(None, shown)))


def inputs_with_picture(model: Model, item: Any) -> Processed:
    """As the model's forward pass takes them."""
    mixing_of(model.anatomy)
    if isinstance(item, Mapping):
        return {str(name): torch.as_tensor(value) for name, value in item.items()}
    if getattr(model.processor, "image_processor", None) is None:
        raise BadInput(
            f"{type(model.model).__name__} was loaded without a processor of pictures, so a text with a picture has to"
            " be given as its inputs; or load it with one: whence.load(model, processor)."
        )
    if isinstance(item, list):
        return _of_messages(model.processor, item)
    picture, text = _as_picture(model, item[0]), item[1]
    token = getattr(model.processor, "image_token", None)
    if (token is None or token not in text) and getattr(model.processor, "chat_template", None):
        content = [{"type": "image", "image": picture}, {"type": "text", "text": text}]
        return _of_messages(model.processor, [{"role": "user", "content": content}])
    placed = text if token is None or token in text else f"{token}{text}"
    return dict(model.processor(images=[picture], text=[placed], return_tensors="pt"))


def _of_messages(processor: Any, messages: list[Any]) -> Processed:
    settings = {"tokenize": True, "return_dict": True, "return_tensors": "pt", "add_generation_prompt": True}
    try:
        return dict(processor.apply_chat_template(messages, **settings))
    except Exception as error:  # a template is a program of the model's authors and raises what it likes
        raise BadInput(f"The model's chat template refuses this chat: {str(error).splitlines()[0]}") from error


def _text(model: Model, item: object, truncate: bool) -> Encoded:
    """Padded where the model reads the padding, too."""
    if model.tower is None or not model.tower.filled:
        return encode(model.anatomy, model.tokenizer, sentence(item), truncate)
    longest = int(model.anatomy.config.max_position_embeddings)
    read = coded(model.tokenizer, sentence(item), longest if truncate else None)
    rest = longest - len(read.ids)
    padding = Coded(Sentence(""), [model.tokenizer.pad_token_id or 0] * rest, [None] * rest, [None] * rest)
    return aligned(model.anatomy, model.tokenizer, read + padding)


def _inputs(model: Model, item: object) -> Processed:
    """As the model's forward pass takes it, a batch of one."""
    if isinstance(item, Mapping):
        return _checked(model, {str(name): torch.as_tensor(value) for name, value in item.items()})
    kind = KINDS[model.reads].name
    read = {"picture": _as_picture, "sound": _as_sound}[kind](model, item)
    if model.processor is None:
        raise BadInput(
            f"{type(model.model).__name__} was loaded without a processor, so a {kind} has to be given as its inputs"
            f" ({model.reads}); or load it with one: whence.load(model, processor)."
        )
    return _checked(model, dict(_processed(model.processor, kind, read)))


def _checked(model: Model, inputs: Processed) -> Processed:
    name = model.reads
    if name not in inputs:
        raise BadInput(
            f"{type(model.model).__name__} reads {name}, and inputs named {', '.join(sorted(inputs))} were given."
        )
    if len(inputs[name]) != 1:
        raise BadInput(f"One {KINDS[name].name} is measured at a time, and {len(inputs[name])} were given.")
    if not bool(torch.isfinite(inputs[name]).all()):
        raise BadInput(f"The {KINDS[name].name} has values that are no numbers (NaN or infinite); correct them.")
    if not bool(inputs.pop("attention_mask", torch.ones(1)).all()):
        raise BadInput(f"The {KINDS[name].name} is padded (its attention_mask has zeros); give it without padding.")
    return inputs


def _processed(processor: Any, kind: str, read: Any) -> Mapping[str, Tensor]:
    if kind == "picture":
        return getattr(processor, "image_processor", processor)(images=read, return_tensors="pt")
    extractor = getattr(processor, "feature_extractor", processor)
    return extractor(read, sampling_rate=extractor.sampling_rate, return_tensors="pt")


def _as_picture(model: Model, item: object) -> Any:
    """In RGB: what is transparent or grey is no other picture."""
    if isinstance(item, np.ndarray | Tensor):
        return item
    require("Pictures need", "image", "PIL")
    from PIL import Image, UnidentifiedImageError

    if isinstance(item, Image.Image):
        return item.convert("RGB")
    if not isinstance(item, str | Path):
        raise BadInput(f"{_wants(model)}, and {type(item).__name__} was given.")
    try:
        with Image.open(Path(item).expanduser()) as opened:
            return opened.convert("RGB")
    except (OSError, UnidentifiedImageError, ValueError) as error:
        raise BadInput(f"{_wants(model)}, and {str(item)[:80]!r} is no file of a picture.") from error


def _as_sound(model: Model, item: object) -> Any:
    if isinstance(item, str | Path) and is_file(str(item)):
        return _wave(model, Path(item).expanduser())
    if not isinstance(item, np.ndarray | Tensor | list) or np.ndim(item) != 1:
        what = f"{str(item)[:80]!r}" if isinstance(item, str | Path) else type(item).__name__
        raise BadInput(f"{_wants(model)}, and {what} was given.")
    return np.asarray(item, dtype=np.float32)


def _wave(model: Model, file: Path) -> np.ndarray:
    """The samples of a .wav file, the mean of its channels."""
    try:
        with wave.open(str(file), "rb") as opened:
            rate, width, channels = opened.getframerate(), opened.getsampwidth(), opened.getnchannels()
            samples = opened.readframes(opened.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise BadInput(f"{_wants(model)}, and {file.name!r} is no .wav file that can be read ({error}).") from error
    extractor = getattr(model.processor, "feature_extractor", model.processor)
    wanted = getattr(extractor, "sampling_rate", rate)
    if width != 2 or rate != wanted:
        raise BadInput(
            f"{file.name!r} has {rate:,} samples per second of {8 * width} bits, and {wanted:,} of 16 bits were"
            " expected; convert it, or give its samples as an array."
        )
    read = np.frombuffer(samples, dtype="<i2").reshape(-1, channels).mean(axis=1)
    return (read / 2**15).astype(np.float32)


def _wants(model: Model) -> str:
    forms = {
        "picture": "give one as a file, a PIL image, an array, or what its processor gives",
        "sound": "give one as a .wav file, a row of samples at the processor's rate, or what the processor gives",
    }
    kind = KINDS[model.reads].name
    return f"{type(model.model).__name__} reads {kind}s ({forms[kind]})"


def _picture(pixels: Tensor, processor: Any) -> str | None:
    """What the model reads, cropped and scaled as it is, so that patches lie where they are; None without pillow."""
    try:
        from PIL import Image
    except ImportError:
        return None
    processor = getattr(processor, "image_processor", processor)
    mean, std = (getattr(processor, f"image_{name}", None) for name in ("mean", "std"))
    values = pixels[0].detach().float().cpu()
    if mean is not None and std is not None and getattr(processor, "do_normalize", False):
        values = values * torch.tensor(std)[:, None, None] + torch.tensor(mean)[:, None, None]
    else:
        values = (values - values.min()) / (values.max() - values.min()).clamp(min=1e-9)
    shown = (values.clamp(0, 1) * 255).round().to(torch.uint8).movedim(0, -1).numpy()
    image = Image.fromarray(shown.squeeze(-1) if shown.shape[-1] == 1 else shown)
    image.thumbnail((LONGEST, LONGEST))
    file = io.BytesIO()
    image.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
