"""What was given to a model, as its tokens: a text, a picture, a sound, or what the model's processor made of it."""

import base64
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from whence.errors import BadInput
from whence.models import media
from whence.models.arguments import accepted
from whence.models.block import Batch
from whence.models.coded import Coded, coded
from whence.models.encode import Encoded, aligned, encode
from whence.models.inputs import KINDS, TEXT, of_inputs
from whence.models.load import Model
from whence.models.mixed import PIXELS, mixed, mixing_of, pictures
from whence.models.places import places
from whence.models.verify import check_pictured
from whence.text.sentence import Sentence, sentence

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
    return isinstance(item, Sentence | tuple | list) or (isinstance(item, str) and not media.is_picture(item))


def encoded_of(model: Model, item: object, truncate: bool = False) -> Encoded:
    """The tokens of what was given, as the model reads it."""
    if model.reads == TEXT:
        return (
            pictured(model, inputs_with_picture(model, item))
            if has_picture(model, item)
            else _text(model, item, truncate)
        )
    inputs = _inputs(model, item)
    batch = _read(model, inputs)
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


def has_picture(model: Model, item: object) -> bool:
    """Whether this is a text with a picture: (picture, text), messages with parts, or what a processor made of them.

    A name of a file is a picture where the model reads some, and else the first text of a pair.
    """
    if isinstance(item, Mapping):
        return {TEXT, PIXELS} <= item.keys()
    if isinstance(item, list):
        return any(isinstance(message, Mapping) and isinstance(message.get("content"), list) for message in item)
    if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[1], str):
        return False
    return not isinstance(item[0], str) or (PIXELS in accepted(model.model) and media.is_picture(item[0]))


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
        return _tensors(item)
    if getattr(model.processor, "image_processor", None) is None:
        raise BadInput(
            f"{type(model.model).__name__} was loaded without a processor of pictures, so a text with a picture has to"
            " be given as its inputs; or load it with one: whence.load(model, processor)."
        )
    if isinstance(item, list):
        return _of_messages(model.processor, item)
    picture, text = media.picture(item[0], type(model.model).__name__), item[1]
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
        return _checked(model, _tensors(item))
    kind, name = KINDS[model.reads].name, type(model.model).__name__
    processor = _processor(model, kind)
    if processor is None:
        raise BadInput(
            f"{name} was loaded without a processor of {kind}s, so a {kind} has to be given as its inputs"
            f" ({model.reads}); or load it with one: whence.load(model, processor)."
        )
    if kind == "picture":
        return _checked(model, dict(processor(images=media.picture(item, name), return_tensors="pt")))
    rate = processor.sampling_rate
    return _checked(model, dict(processor(media.sound(item, name, rate), sampling_rate=rate, return_tensors="pt")))


def _processor(model: Model, kind: str) -> Any:
    """The part of the model's processor that reads pictures or sounds; None without one."""
    part = {"picture": "image_processor", "sound": "feature_extractor"}[kind]
    processor = getattr(model.processor, part, model.processor)
    return None if isinstance(processor, PreTrainedTokenizerBase) else processor


def _checked(model: Model, inputs: Processed) -> Processed:
    name = model.reads
    if name not in inputs:
        there = f"inputs named {', '.join(sorted(inputs))} were" if inputs else "an empty mapping was"
        raise BadInput(f"{type(model.model).__name__} reads {name}, and {there} given.")
    if len(inputs[name]) != 1:
        raise BadInput(f"One {KINDS[name].name} is measured at a time, and {len(inputs[name])} were given.")
    _numbers(inputs)
    if not bool(inputs.pop("attention_mask", torch.ones(1)).all()):
        raise BadInput(f"The {KINDS[name].name} is padded (its attention_mask has zeros); give it without padding.")
    return inputs


def _tensors(inputs: Mapping[Any, Any]) -> Processed:
    try:
        return _numbers({str(name): torch.as_tensor(value) for name, value in inputs.items()})
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInput(f"What a processor gives is tensors by name, and something else was given ({error}).") from error


def _numbers(inputs: Processed) -> Processed:
    if wrong := [name for name, values in inputs.items() if not bool(torch.isfinite(values).all())]:
        raise BadInput(f"What was given ({wrong[0]}) has values that are no numbers (NaN or infinite); correct them.")
    return inputs


def _read(model: Model, inputs: Processed) -> Batch:
    """With as many tokens as the model makes of it, and its own word for what it cannot read."""
    try:
        return of_inputs(model.model, inputs)
    except (ValueError, RuntimeError, AttributeError) as error:
        said = str(error).partition("\n")[0]
        raise BadInput(f"{type(model.model).__name__} does not read this {KINDS[model.reads].name}: {said}") from error


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
