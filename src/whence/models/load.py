"""A model ready to be measured: from the Hub, a folder, a GGUF file, memory, or the built-in one; verified."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    FeatureExtractionMixin,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    ProcessorMixin,
)
from transformers.image_processing_base import ImageProcessingMixin

from whence.errors import BadInput, Unsupported
from whence.models import builtin
from whence.models.anatomy import Anatomy
from whence.models.capture import threads_for
from whence.models.hooks import foreign_hooks
from whence.models.inputs import TEXT, reads, reads_alone, textless
from whence.models.locate import PROBE_LENGTH, locate
from whence.models.pieces import device_of, in_pieces
from whence.models.placement import on_device, spread
from whence.models.pretrained import checked_source, read_network, read_processor
from whence.models.towers import Tower, towers_of
from whence.models.verify import LONG, Check, capabilities, check_ending, verify
from whence.models.wrapped import unwrapped

PLACING = ("device_map", "max_memory", "offload_folder")
PROCESSORS = (PreTrainedTokenizerBase, ProcessorMixin, ImageProcessingMixin, FeatureExtractionMixin)


@dataclass(frozen=True, eq=False)
class Model:
    """A model with what makes its inputs, what is inside it, and the checks it passed."""

    model: PreTrainedModel
    processor: Any
    "What makes its inputs: a tokenizer, or what reads pictures or sounds, alone or with one; None where there is none."
    anatomy: Anatomy
    checks: tuple[Check, ...]
    id: str
    revision: str | None
    origin: Mapping[str, Any] | None = None
    "The arguments of `load` that give it on another machine; None of a model that was in memory."
    tower: Tower | None = None
    "How it ends in a vector, where it is one of the two towers of an image–text model."
    around: PreTrainedModel | None = None
    "That image–text model."
    pictures: "Model | None" = None
    "Its other tower, beside the one that reads texts."
    encoder: "Model | None" = None
    "Of an encoder-decoder its encoder, a model of its own: whatever is asked of one stack can be asked of it."
    layout: tuple[object, ...] = field(init=False, repr=False)
    "What was verified: the layers that have weights, and the user's hooks."

    def __post_init__(self) -> None:
        object.__setattr__(self, "layout", _layout(self.model))

    @property
    def tokenizer(self) -> Any:
        """What makes tokens of a text; whatever asks for it is refused where the model reads none."""
        if isinstance(self.processor, PreTrainedTokenizerBase):
            return self.processor
        if (tokenizer := getattr(self.processor, "tokenizer", None)) is None:
            raise Unsupported(f"{textless(self.model)}; whence.measure and whence.why take what it reads.")
        return tokenizer

    @property
    def reads(self) -> str:
        """The name of its input: input_ids where it reads texts."""
        return reads(self.model)

    @property
    def gives(self) -> frozenset[str]:
        """What can be measured: attention, rows, values, norms, head."""
        return capabilities(self.checks)

    @property
    def device(self) -> torch.device:
        """Where it computes; of several devices the first."""
        return device_of(self.model)

    @property
    def reasons(self) -> dict[str, str]:
        """Why something cannot be measured, where its check could not be run."""
        return {check.gives: check.reason for check in self.checks if check.reason}

    def __repr__(self) -> str:
        anatomy = self.anatomy
        before = "" if anatomy.encoder is None else f"{anatomy.encoder.layers}+"
        return (
            f"Model({self.id!r}, family={anatomy.family!r}, layers={before}{anatomy.layers}, heads={anatomy.heads},"
            f" width={anatomy.width}, gives={sorted(self.gives)})"
        )


def loaded(model: object, two_stacks: bool = False) -> Model:
    """The model, if `load` returned it and its layers and hooks are still those that were verified.

    Encoder-decoders are for those who ask for `two_stacks`. Weights may have changed since, by training or by another
    adapter: they are read at every measurement.
    """
    if not isinstance(model, Model):
        raise BadInput(f"A model is what whence.load gives, and {type(model).__name__} was given; load it first.")
    if model.layout != _layout(model.model):
        raise BadInput(
            f"The layers or hooks of {type(model.model).__name__} were changed after it was loaded (an adapter added or"
            " merged, a layer replaced); load it again: whence.load(model.model, model.tokenizer)."
        )
    if model.encoder is not None and not two_stacks:
        raise Unsupported(
            f"{type(model.model).__name__} has two stacks, which whence.measure, whence.why, whence.lm_head,"
            " whence.run, whence.identify and whence.verify read; for anything else give its encoder (model.encoder)."
        )
    return model


def _layout(model: PreTrainedModel) -> tuple[object, ...]:
    """By identity, and only modules with weights: some models replace those around them themselves (BigBird)."""
    modules = list(model.modules())
    layers = [module for module in modules if any(weight is not None for weight in module._parameters.values())]
    return (*layers, *foreign_hooks(modules))


def load(
    model: object = None,
    tokenizer: Any = None,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: str | torch.dtype = "auto",
    device_map: object = None,
    max_memory: object = None,
    offload_folder: str | Path | None = None,
    model_kwargs: Mapping[str, Any] | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
) -> Model:
    """A verified model: the built-in one, one from the Hub, a folder or a .gguf file, or one already in memory.

    Args:
        model: nothing or "whence/builtin" for the built-in model, a Hub id, a folder, a .gguf file, or a model of
            transformers, by itself or inside a LanguageModel of nnsight or a TransformerBridge of TransformerLens
        tokenizer: of a model in memory, or its processor of pictures or sounds; otherwise the model's own
        revision: of a model on the Hub: a branch, a tag or a commit
        device: "auto", or a device of torch; a model in memory is left where it is
        dtype: "auto" is float32, so that identities hold to 1e-5; a model in memory is left as it is
        device_map: of a large model: "auto" spreads it over the GPUs, the host and the disk (accelerate), or a table of
            modules and devices
        max_memory: how much of each it may take, such as {0: "20GB", "cpu": "60GB"}
        offload_folder: for weights on the disk that cannot be read from the checkpoint as they are
        model_kwargs: further arguments of transformers' `from_pretrained`
        trust_remote_code: code from the Hub is refused without it
        allow_pickle: a pickled checkpoint runs code when opened, and is refused without it

    Returns:
        The model, ready to be measured. What it gives is what passed the checks: `model.gives`, and `whence.verify` has
        them with their errors.

    Examples:
        >>> whence.load().anatomy.family
        'bert'
    """
    model, tokenizer = unwrapped(model, tokenizer)
    if tokenizer is not None and not isinstance(tokenizer, PROCESSORS):
        raise BadInput(
            f"A tokenizer or processor is one of transformers', and {type(tokenizer).__name__} was given; load it"
            " first."
        )
    placed = spread(device, device_map, max_memory, offload_folder)
    if isinstance(model, PreTrainedModel):
        if placed:
            raise BadInput(
                "A model in memory is left where it is; spread it with accelerate, or give its name or path."
            )
        return _wrapped(model, _required(tokenizer, model), model.name_or_path or type(model).__name__, None)
    if model is not None and not isinstance(model, str | Path):
        raise BadInput(
            f"A model is a Hub id, a path or a transformers PreTrainedModel, and {type(model).__name__} was given"
            " (of a PEFT model, give merge_and_unload() or get_base_model(); of a compiled or parallel model, the one"
            " inside it)."
        )
    target_device, target_dtype = None if placed else on_device(device), _dtype(dtype)
    if model is None or model == builtin.NAME:
        if tokenizer is not None or revision is not None:
            raise BadInput("The built-in model has a tokenizer of its own and one revision; name a model.")
        if placed:
            raise BadInput("The built-in model is small and goes to one device; leave the device map out.")
        with threads_for(PROBE_LENGTH):
            network, tokenizer = builtin.read()
        origin = {"model": builtin.NAME, "device": device, "dtype": target_dtype}
        network = network.to(target_device, target_dtype)
        return _wrapped(network, tokenizer, builtin.NAME, builtin.SHA256[:12], origin)
    options = dict(model_kwargs or {}) | {"revision": revision, "trust_remote_code": trust_remote_code}
    _check_twice(options)
    source = checked_source(model, options, allow_pickle)
    network = read_network(source, options, placed, target_dtype, allow_pickle)
    if tokenizer is None:
        tokenizer = read_processor(network, source, options)
    commit = getattr(network.config, "_commit_hash", None) or revision
    origin = {
        "model": str(Path(model).expanduser().resolve()) if Path(model).expanduser().exists() else model,
        "tokenizer": tokenizer,
        "revision": commit,
        "device": device,
        "dtype": target_dtype,
        "model_kwargs": dict(model_kwargs or {}),
        "trust_remote_code": trust_remote_code,
        "allow_pickle": allow_pickle,
    }
    network = network if placed else network.to(target_device)
    return _wrapped(network, tokenizer, str(model), commit, origin | placed)


def quiet(bars: bool) -> None:
    """Keeps transformers to errors, and its progress bars to terminals: for the command line."""
    transformers.logging.set_verbosity_error()
    if not bars:
        transformers.logging.disable_progress_bar()


def _wrapped(
    model: PreTrainedModel, tokenizer: Any, name: str, revision: str | None, origin: Mapping[str, Any] | None = None
) -> Model:
    _refuse_meta(model)
    if (towers := towers_of(model)) is not None:
        read = partial(_tower, model, processor=tokenizer, name=name, revision=revision, origin=origin)
        return replace(read(towers.texts), pictures=read(towers.pictures))
    if type(model).__name__.endswith("ForMultipleChoice"):
        raise Unsupported(
            f"{type(model).__name__} reads several texts at once; give the stack inside it:"
            " whence.load(model.base_model, tokenizer)."
        )
    with threads_for(PROBE_LENGTH):
        anatomy = locate(model)
        checks = verify(anatomy)
        if anatomy.encoder is None:
            anatomy = replace(anatomy, chunks=LONG in capabilities(checks))
            return Model(model, tokenizer, anatomy, checks, name, revision, origin)
        encoder = _wrapped(anatomy.encoder.model, tokenizer, f"{name} (encoder)", revision)
        return Model(model, tokenizer, anatomy, checks, name, revision, origin, encoder=encoder)


def _tower(model: PreTrainedModel, tower: Tower, processor: Any, **about: Any) -> Model:
    """One of two towers, read by itself, after its vector was compared with the one that the whole model makes."""
    part = model.get_submodule(tower.part)
    assert isinstance(part, PreTrainedModel)
    texts_alone = reads(part) != TEXT and isinstance(processor, PreTrainedTokenizerBase)
    alone = _wrapped(part, None if texts_alone else processor, **about)
    check_ending(model, tower, alone.anatomy)
    return replace(alone, tower=tower, around=model)


def _refuse_meta(model: PreTrainedModel) -> None:
    if any(parameter.is_meta for parameter in model.parameters()) and not in_pieces(model):
        raise Unsupported(
            f"{type(model).__name__} has weights on the meta device, so there is nothing to run; load them"
            " first (nnsight: dispatch=True)."
        )


def _required(tokenizer: Any, model: PreTrainedModel) -> Any:
    if reads_alone(model):
        if isinstance(tokenizer, PreTrainedTokenizerBase):
            raise BadInput(f"{textless(model)}, and a tokenizer was given; give its processor, or none.")
        return tokenizer
    if tokenizer is None or not (
        isinstance(tokenizer, PreTrainedTokenizerBase) or getattr(tokenizer, "tokenizer", None) is not None
    ):
        raise BadInput(f"A model in memory needs its tokenizer too: whence.load({type(model).__name__}, tokenizer).")
    return tokenizer


def _check_twice(options: Mapping[str, Any]) -> None:
    if named := [name for name in PLACING if name in options]:
        raise BadInput(f"model_kwargs has {named[0]}; give it to whence.load itself.")


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        return dtype
    chosen = torch.float32 if dtype == "auto" else getattr(torch, dtype, None) if isinstance(dtype, str) else None
    if not isinstance(chosen, torch.dtype) or not chosen.is_floating_point:
        raise BadInput(f"There is no dtype {dtype!r}; use auto (float32), float64, float32, bfloat16 or float16.")
    return chosen
