"""A model ready to be measured: from the Hub, a folder, a GGUF file, memory, or the built-in one; verified."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from whence.errors import BadInput, Unsupported
from whence.models import builtin
from whence.models.anatomy import Anatomy
from whence.models.capture import threads_for
from whence.models.locate import PROBE_LENGTH, locate
from whence.models.verify import Check, capabilities, verify

TOKENIZERS = ("tokenizer*", "vocab*", "*.model", "*.tiktoken", "merges.txt", "tekken.json")
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")


@dataclass(frozen=True, eq=False)
class Model:
    """A model with its tokenizer, what is inside it, and the checks it passed."""

    model: PreTrainedModel
    tokenizer: Any
    anatomy: Anatomy
    checks: tuple[Check, ...]
    id: str
    revision: str | None

    @property
    def gives(self) -> frozenset[str]:
        """What can be measured: attention, rows, values, norms, head."""
        return capabilities(self.checks)

    def __repr__(self) -> str:
        anatomy = self.anatomy
        return (
            f"Model({self.id!r}, family={anatomy.family!r}, layers={anatomy.layers}, heads={anatomy.heads},"
            f" width={anatomy.width}, gives={sorted(self.gives)})"
        )


def loaded(given: object) -> Model:
    """The model itself, if it is one that `load` gave."""
    if not isinstance(given, Model):
        raise BadInput(f"A model is what whence.load gives, and {type(given).__name__} was given; load it first.")
    return given


def load(
    model: object = None,
    tokenizer: Any = None,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: str | torch.dtype = "auto",
    model_kwargs: Mapping[str, Any] | None = None,
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
) -> Model:
    """A verified model: the built-in one (also by its name, "whence/builtin"), a Hub id, a folder, a .gguf file, or
    one already in memory.

    dtype "auto" is float32, so that identities hold to 1e-5. A model in memory is left where and as it is.
    Weights are read from safetensors (or GGUF); a pickled checkpoint runs code when opened and is refused unless
    `allow_pickle`; code from the Hub is refused unless `trust_remote_code`.
    """
    if tokenizer is not None and not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise BadInput(f"A tokenizer is one of transformers', and {type(tokenizer).__name__} was given; load it first.")
    if isinstance(model, PreTrainedModel):
        return _wrapped(model, _given(tokenizer, model), model.name_or_path or type(model).__name__, None)
    if model is not None and not isinstance(model, str | Path):
        raise BadInput(
            f"A model is a Hub id, a path or a transformers PreTrainedModel, and {type(model).__name__} was given"
            " (of an adapter, give merge_and_unload(); of a compiled or parallel model, the one inside it)."
        )
    place, number = _device(device), _dtype(dtype)
    if model is None or model == builtin.NAME:
        if tokenizer is not None or revision is not None:
            raise BadInput("The built-in model has a tokenizer of its own and one revision; name a model.")
        with threads_for(PROBE_LENGTH):
            network, tokenizer = builtin.read()
        return _wrapped(network.to(place, number), tokenizer, builtin.NAME, builtin.SHA256[:12])
    options = dict(model_kwargs or {}) | {"revision": revision, "trust_remote_code": trust_remote_code}
    source = _source(model, options, allow_pickle)
    network = _read(source, options, number, allow_pickle)
    if tokenizer is None:
        tokenizer = _tokenizer(source, options)
    found = getattr(network.config, "_commit_hash", None) or revision
    return _wrapped(network.to(place), tokenizer, str(model), found)


def quiet(bars: bool) -> None:
    """Keeps transformers to errors, and its progress bars to terminals: for the command line."""
    transformers.logging.set_verbosity_error()
    if not bars:
        transformers.logging.disable_progress_bar()


def _wrapped(model: PreTrainedModel, tokenizer: Any, name: str, revision: str | None) -> Model:
    _refuse_meta(model)
    if type(model).__name__.endswith("ForMultipleChoice"):
        raise Unsupported(
            f"{type(model).__name__} reads several texts at once; give the stack inside it:"
            " whence.load(model.base_model, tokenizer)."
        )
    with threads_for(PROBE_LENGTH):
        anatomy = locate(model)
        return Model(model, tokenizer, anatomy, verify(anatomy), name, revision)


def _refuse_meta(model: PreTrainedModel) -> None:
    if any(parameter.is_meta for parameter in model.parameters()):
        raise Unsupported(f"{type(model).__name__} has weights on the meta device, so there is nothing to run.")


def _given(tokenizer: Any, model: PreTrainedModel) -> Any:
    if tokenizer is None:
        raise BadInput(f"A model in memory needs its tokenizer too: whence.load({type(model).__name__}, tokenizer).")
    return tokenizer


def _source(model: str | Path, options: dict[str, Any], allow_pickle: bool) -> str:
    """The name to hand to transformers; a .gguf file becomes its folder and the file's name."""
    path = Path(model).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        options["gguf_file"] = path.name
        return str(path.parent)
    if path.is_dir():
        _check_folder(path, allow_pickle or "gguf_file" in options)
        return str(path)
    if path.exists():
        raise BadInput(f"{model} is a file; give the folder it is in, or a .gguf file.")
    if isinstance(model, Path) or model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise BadInput(f"There is no folder {str(model)!r}.")
    return str(model)


def _check_folder(path: Path, any_weights: bool) -> None:
    if any_weights:
        return
    if not (path / "config.json").is_file():
        raise BadInput(f"The folder {str(path)!r} has no config.json, so it is not a transformers model.")
    if any(path.glob("*.safetensors")):
        return
    pickled = [found.name for pattern in PICKLED for found in path.glob(pattern)]
    if pickled:
        raise BadInput(
            f"The folder {str(path)!r} has only a pickled checkpoint ({pickled[0]}), which can run code when opened;"
            " convert it to safetensors, or load it with --allow-pickle (in Python: allow_pickle=True)."
        )
    raise BadInput(f"The folder {str(path)!r} has no weights: a *.safetensors file was expected.")


def _read(source: str, options: dict[str, Any], dtype: torch.dtype, allow_pickle: bool) -> PreTrainedModel:
    """The checkpoint as the class it was saved from; without its head when the head's weights are not in it."""
    settings = dict(options, dtype=dtype, output_loading_info=True)
    if not allow_pickle and "gguf_file" not in options:
        settings["use_safetensors"] = True
    with _one_sentence(source):
        config = AutoConfig.from_pretrained(source, **options)
        model, info = _class(config, options).from_pretrained(source, **settings)
        if info["missing_keys"]:
            model, info = AutoModel.from_pretrained(source, **settings)
    missing = [name for name in info["missing_keys"] if "pooler" not in name]
    if missing:
        raise BadInput(
            f"{source!r} has no weights for {len(missing)} parts of {type(model).__name__} (first: {missing[0]}), which"
            " would be random; give a complete checkpoint."
        )
    return model.eval()


def _class(config: Any, options: dict[str, Any]) -> Any:
    """The architecture the checkpoint names; pre-training classes give way to their masked-LM sisters."""
    named = (config.architectures or [""])[0].replace("ForPreTraining", "ForMaskedLM")
    if options["trust_remote_code"] and getattr(config, "auto_map", None):
        return transformers.AutoModelForCausalLM if "CausalLM" in named else AutoModel
    known = getattr(transformers, named, None) if named else None
    if known is None and "gguf_file" in options:
        return transformers.AutoModelForCausalLM
    return known or AutoModel


def _tokenizer(source: str, options: dict[str, Any]) -> Any:
    folder = Path(source)
    if folder.is_dir() and "gguf_file" not in options and not any(any(folder.glob(name)) for name in TOKENIZERS):
        raise BadInput(f"The folder {source!r} has no tokenizer; save it there too, or give it to whence.load.")
    wanted = {name: options[name] for name in ("revision", "trust_remote_code", "gguf_file") if name in options}
    with _one_sentence(f"The tokenizer of {source}"):
        return AutoTokenizer.from_pretrained(source, **wanted)


class _one_sentence:  # noqa: N801  (reads as the statement it is)
    """Turns what transformers, safetensors and json raise for an unusable checkpoint into one sentence."""

    def __init__(self, source: str):
        self.source = source

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: object) -> None:
        for expected, sentence in _SENTENCES.items():
            if isinstance(error, expected):
                raise BadInput(sentence.format(source=self.source, error=_first(error))) from error


_SENTENCES: dict[type[Exception] | tuple[type[Exception], ...], str] = {
    SafetensorError: "{source}: the safetensors file is broken ({error}); download it again.",
    json.JSONDecodeError: "{source}: a configuration file is not JSON ({error}).",
    OSError: "{source} is not a folder that can be read, nor a model that can be had from the Hub now ({error}).",
    (ValueError, KeyError): "{source} cannot be loaded by transformers " + transformers.__version__ + " ({error}).",
}


def _first(error: BaseException) -> str:
    return str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__


def _device(device: str) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise BadInput(f"There is no device {device!r} here; use auto, cpu, cuda or mps.") from error
    return place


def _dtype(dtype: str | torch.dtype) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        return dtype
    found = torch.float32 if dtype == "auto" else getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise BadInput(f"There is no dtype {dtype!r}; use auto (float32), float64, float32, bfloat16 or float16.")
    return found
