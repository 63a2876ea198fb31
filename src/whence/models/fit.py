"""Whether a configuration and its weights fit together, judged by the headers of the safetensors files, before memory
is allocated, because a model of the wrong sizes would be filled with random numbers first."""

import copy
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightConverter
from transformers.initialization import meta_device_safe_creation_ops, no_init_weights

from whence.errors import BadInput

MANY = 1000  # layers or experts that are built without weights in a few seconds
LARGEST_HEADER = 100_000_000  # bytes, as in safetensors itself
NUMBERS = {"F64", "F32", "F16", "BF16"}
# not LLaVA's vision_feature_layer, which is a place and counts from the end
COUNTS = re.compile(
    r"((?<!feature_)(?<!select_)layers?|heads?|experts)$|^(hidden|intermediate|vocab)_size$|^n_(embd|inner)$"
)
OPTIONAL = re.compile(r"expert|shared|cross|predict|dense|kv|window|intermediate|vocab|classifier")  # may be 0
Header = tuple[str, tuple[int, ...]]  # dtype and shape of a tensor


def headers(folder: Path) -> dict[str, Header]:
    """The dtype and shape of every tensor in the folder's safetensors files, without reading the tensors."""
    return {name: header for file in _files(folder) for name, header in _header(file).items()}


def check_counts(config: Any, tensors: Mapping[str, Header], source: str) -> None:
    """At least one layer and head, and not far more layers than the weights have tensors."""
    most = max(MANY, len(tensors))
    for name, count in _counts(config.to_dict()):
        if count < 0 or (count == 0 and not OPTIONAL.search(name)):
            raise BadInput(f"{source}: config.json says {name} = {count}, and at least 1 was expected; correct it.")
        if re.search("layer|expert", name) and count > most:
            raise BadInput(
                f"{source}: config.json says {name} = {count:,}, and the weights are {len(tensors):,} tensors; give the"
                " config.json that belongs to them."
            )


def check_fit(kind: Any, config: Any, tensors: Mapping[str, Header], source: str) -> None:
    """The model that would be built, without weights, has the shapes and the layers of the files."""
    if getattr(config, "quantization_config", None) is not None:
        return
    empty = _empty(kind, config)
    check_dropped(_kept_names(empty, tensors), empty, source)
    if any(isinstance(step, WeightConverter) for step in get_model_conversion_mapping(empty, add_legacy=False)):
        return  # transformers splits and merges these tensors while it loads them
    for name, expected in _own(empty).items():
        stored = next((tensors[key] for key in _aliases(empty, name) if key in tensors), None)
        if stored is not None:
            _check_tensor(name, expected, stored, source)


def check_dropped(names: Iterable[str], model: PreTrainedModel, source: str) -> None:
    """No weights of further layers, which would be left out in silence."""
    known: dict[str, set[str]] = defaultdict(set)
    for name in _own(model):
        known[_pattern(name)].add(name)
    for name in names:
        aliases = _aliases(model, name)
        if any(_pattern(alias) in known for alias in aliases) and not any(
            alias in known[_pattern(alias)] for alias in aliases
        ):
            raise BadInput(
                f"{source} has weights of more layers than its config.json says (first: {name}), which would be left"
                " out; give the config.json that belongs to them."
            )


def _check_tensor(name: str, expected: torch.Tensor, stored: Header, source: str) -> None:
    dtype, shape = stored
    if shape != tuple(expected.shape):
        raise BadInput(
            f"{source}: {name} has the shape {list(shape)} in the weights and {list(expected.shape)} by config.json;"
            " give the config.json that belongs to them."
        )
    if expected.is_floating_point() and dtype not in NUMBERS:
        raise BadInput(
            f"{source}: {name} is stored as {dtype}, and config.json names no quantization; save the weights as"
            " float32, bfloat16 or float16."
        )


def _empty(kind: Any, config: Any) -> PreTrainedModel:
    """A model on the meta device; transformers' own way of building one before it reads weights."""
    build = getattr(kind, "from_config", None) or kind._from_config
    config = copy.deepcopy(config)
    config.dtype = torch.float32
    with torch.device("meta"), meta_device_safe_creation_ops(), no_init_weights():
        return build(config)


def _own(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    return dict(model.state_dict(keep_vars=True))


def _aliases(model: PreTrainedModel, name: str) -> tuple[str, str, str]:
    """A tensor's name with and without the prefix of the model inside, as transformers matches them."""
    prefix = f"{model.base_model_prefix}."
    return name, prefix + name, name.removeprefix(prefix)


def _pattern(name: str) -> str:
    return re.sub(r"(?<=\.)\d+(?=\.)", "#", name)


def _kept_names(model: PreTrainedModel, names: Iterable[str]) -> list[str]:
    """Without those that the family itself says are not for it: layers that predict further tokens, for example."""
    ignored = [*(model._keys_to_ignore_on_load_unexpected or [])]
    return [name for name in names if not any(re.search(pattern, name) for pattern in ignored)]


def _counts(settings: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _counts({str(key): inner for key, inner in value.items()})
        elif isinstance(value, int) and not isinstance(value, bool) and COUNTS.search(name):
            yield name, value


def _files(folder: Path) -> list[Path]:
    """The file that transformers would read: the single one before the parts that an index names."""
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.is_file():
        return [single]
    if index.is_file():
        return sorted({folder / name for name in json.loads(index.read_bytes())["weight_map"].values()})
    return []


def _header(file: Path) -> dict[str, Header]:
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > min(LARGEST_HEADER, file.stat().st_size):
            raise BadInput(f"{file}: the safetensors file is broken (its header is too long); download it again.")
        try:
            entries = json.loads(stream.read(length))
            entries.pop("__metadata__", None)
            return {name: (entry["dtype"], tuple(entry["shape"])) for name, entry in entries.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadInput(f"{file}: the safetensors file is broken (its header); download it again.") from error
