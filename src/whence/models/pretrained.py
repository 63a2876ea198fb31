"""A checkpoint read by transformers: its network and what makes its inputs, from the Hub, a folder or a GGUF file.

What is wrong with a checkpoint is one sentence.
"""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModel, AutoProcessor, AutoTokenizer, PreTrainedModel
from transformers.utils import cached_file

from whence.errors import BadInput, WhenceError
from whence.models.arguments import accepted
from whence.models.checkpoint import check_folder, check_hub, check_named
from whence.models.fit import Header, check_counts, check_dropped, check_fit, headers
from whence.models.gguf_tokens import with_ends
from whence.models.inputs import KINDS, TEXT, reads
from whence.models.placement import check_named_modules

FULL = ("os error 28", "No space left on device")
PREPARED = ("preprocessor_config.json", "processor_config.json")
TOKENIZERS = ("tokenizer*", "vocab*", "*.model", "*.tiktoken", "merges.txt", "tekken.json")


def checked_source(model: str | Path, options: dict[str, Any], allow_pickle: bool) -> str:
    """The name to hand to transformers; a .gguf file becomes its folder and the file's name."""
    path = Path(model).expanduser()
    if path.suffix == ".gguf" and path.is_file():
        options["gguf_file"] = path.name
        return str(path.parent)
    if path.is_dir():
        if "gguf_file" not in options:
            check_folder(path / options.get("subfolder", ""), allow_pickle)
        return str(path)
    if path.exists():
        raise BadInput(f"{model} is a file; give the folder it is in, or a .gguf file.")
    if isinstance(model, Path) or model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise BadInput(f"There is no folder {str(model)!r}.")
    with _one_sentence(str(model)):
        check_hub(model, options, allow_pickle)
    return model


def read_network(
    source: str, options: dict[str, Any], placed: dict[str, Any], dtype: torch.dtype, allow_pickle: bool
) -> PreTrainedModel:
    """The checkpoint as the class it was saved from; without its head when the head's weights are not in it."""
    settings = options | placed | {"dtype": dtype, "output_loading_info": True}
    if not allow_pickle and "gguf_file" not in options:
        settings["use_safetensors"] = True
    with _one_sentence(source):
        config = AutoConfig.from_pretrained(source, **options)
        check_named(config, source, allow_pickle)
        kind = _class(config, options, source)
        if tensors := _headers(source, options):
            check_counts(config, tensors, source)
            check_fit(kind, config, tensors, source)
        model, info = kind.from_pretrained(source, **settings)
        if info["missing_keys"]:
            model, info = AutoModel.from_pretrained(source, **settings)
    check_dropped(info["unexpected_keys"], model, source)
    check_named_modules(placed, model)
    missing = [name for name in info["missing_keys"] if "pooler" not in name]
    if missing:
        raise BadInput(
            f"{source!r} has no weights for {len(missing)} parts of {type(model).__name__} (first: {missing[0]}), which"
            " would be random; give a complete checkpoint."
        )
    return model.eval()


def _headers(source: str, options: dict[str, Any]) -> dict[str, Header]:
    """The safetensors headers of a folder, unless an option makes transformers read other weights."""
    folder = Path(source)
    elsewhere = {"gguf_file", "variant", "key_mapping", "quantization_config"} & set(options)
    return {} if elsewhere or not folder.is_dir() else headers(folder / options.get("subfolder", ""))


def _class(config: Any, options: dict[str, Any], source: str) -> Any:
    """The architecture the checkpoint names; pre-training classes are replaced by the masked-LM ones."""
    named = _architecture(config, source).replace("ForPreTraining", "ForMaskedLM")
    if options["trust_remote_code"] and getattr(config, "auto_map", None):
        return transformers.AutoModelForCausalLM if "CausalLM" in named else AutoModel
    known = getattr(transformers, named, None) if named else None
    if known is None and "gguf_file" in options:
        return transformers.AutoModelForCausalLM
    if known is not None and not (isinstance(known, type) and issubclass(known, PreTrainedModel)):
        raise BadInput(f"{source}: config.json names the architecture {named!r}, which is not a model of transformers.")
    return known or AutoModel


def _architecture(config: Any, source: str) -> str:
    named = config.architectures or [""]
    if not isinstance(named, list) or not isinstance(named[0], str):
        raise BadInput(
            f"{source}: config.json has the architectures {str(named)[:80]!r}, not a list of names; correct it."
        )
    return named[0]


def read_processor(model: PreTrainedModel, source: str, options: dict[str, Any]) -> Any:
    """The tokenizer; of a model that reads pictures or sounds, what makes its inputs; None where that is not there."""
    folder = Path(source)
    if "gguf_file" in options or not accepted(model) & KINDS.keys():
        return read_tokenizer(source, options)
    if folder.is_dir() and not any((folder / name).exists() for name in PREPARED):
        return read_tokenizer(source, options) if reads(model) == TEXT else None
    settings = {name: options[name] for name in ("revision", "trust_remote_code") if name in options}
    with _one_sentence(f"The processor of {source}"):
        return AutoProcessor.from_pretrained(source, **settings)


def read_tokenizer(source: str, options: dict[str, Any]) -> Any:
    folder = Path(source)
    if folder.is_dir() and "gguf_file" not in options and not any(any(folder.glob(name)) for name in TOKENIZERS):
        raise BadInput(f"The folder {source!r} has no tokenizer; save it there too, or give it to whence.load.")
    settings = {name: options[name] for name in ("revision", "trust_remote_code", "gguf_file") if name in options}
    with _one_sentence(f"The tokenizer of {source}"):
        tokenizer = AutoTokenizer.from_pretrained(source, **settings)
        if "gguf_file" not in options:
            return tokenizer
        return with_ends(tokenizer, Path(str(cached_file(source, options["gguf_file"], revision=options["revision"]))))


class _one_sentence:  # noqa: N801  (reads as the statement it is)
    """Turns what transformers, safetensors and json raise for an unusable checkpoint into one sentence."""

    def __init__(self, source: str):
        self.source = source

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: object) -> None:
        if error is None or isinstance(error, WhenceError | MemoryError):
            return
        if any(words in str(error) for words in FULL):
            raise BadInput(
                f"The disk is full, so {self.source} cannot be loaded; make room, or name another offload_folder"
                " (--offload-folder)."
            ) from error
        for expected, sentence in _SENTENCES.items():
            if isinstance(error, expected):
                raise BadInput(sentence.format(source=self.source, error=_first(error))) from error
        if type(error).__name__ == "PanicException":  # tokenizers is written in Rust
            raise BadInput(_SENTENCES[Exception].format(source=self.source, error=_first(error))) from error


_SENTENCES: dict[type[Exception], str] = {
    SafetensorError: "{source}: the safetensors file is broken ({error}); download it again.",
    json.JSONDecodeError: "{source}: a configuration file is not JSON ({error}).",
    OSError: "{source} is not a folder that can be read, nor a model that can be had from the Hub now ({error}).",
    RecursionError: "{source}: a configuration file is nested too deeply ({error}).",
    Exception: "{source} cannot be loaded by transformers " + transformers.__version__ + " ({error}).",
}


def _first(error: BaseException) -> str:
    """The first line that says something: one that ends in a colon only announces the next."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    count = 2 if lines[0].endswith(":") else 1
    return " ".join(line.strip() for line in lines[:count]).rstrip(".")
