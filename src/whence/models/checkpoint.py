"""Whether a checkpoint may be opened at all: the files it names are checked before any is read as weights."""

import json
from pathlib import Path
from typing import Any

from transformers.utils import cached_file

from whence.errors import BadInput

INDEX = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
LARGEST_JSON = 10_000_000  # bytes of config.json or adapter_config.json; the largest on the Hub have a tenth
QUIETLY = {
    "_raise_exceptions_for_gated_repo": False,
    "_raise_exceptions_for_missing_entries": False,
    "_raise_exceptions_for_connection_errors": False,
}


def check_folder(folder: Path, allow_pickle: bool) -> None:
    """A folder with a configuration and weights that can be read without running anything."""
    _check_adapter(folder, allow_pickle)
    if not (folder / "config.json").is_file():
        raise BadInput(f"The folder {str(folder)!r} has no config.json, so it is not a transformers model.")
    json_object(folder / "config.json")
    if allow_pickle:
        return
    for index in folder.glob("*.index.json"):
        check_index(index, str(folder))
    if not any(folder.glob("*.safetensors")):
        raise _without_weights(folder)


def check_hub(source: str, options: dict[str, Any], allow_pickle: bool) -> None:
    """The same for a repository on the Hub, as far as its small files show."""
    hub_options = {name: options[name] for name in ("revision", "subfolder", "token", "cache_dir") if options.get(name)}
    if cached_file(source, ADAPTER, **hub_options, **QUIETLY):
        raise BadInput(_ADAPTED.format(source=repr(source)))
    index = None if allow_pickle else cached_file(source, INDEX, **hub_options, **QUIETLY)
    if index:
        check_index(Path(index), source)


def check_index(index: Path, source: str) -> None:
    """Every shard is a plain *.safetensors name: transformers unpickles other files, wherever they are."""
    named = json_object(index, limit=100 * LARGEST_JSON).get("weight_map")
    if not isinstance(named, dict) or not named:
        raise BadInput(f"{source}: {index.name} has no weight_map, so it names no weights; download it again.")
    foreign = [name for name in named.values() if not _plain(name)]
    if foreign:
        raise BadInput(
            f"{source}: {index.name} names {str(foreign[0])[:80]!r}, and only *.safetensors files beside it are opened;"
            " save the model again with save_pretrained."
        )


def check_named(config: Any, source: str, allow_pickle: bool) -> None:
    """A weights file that the configuration itself names (`transformers_weights`) is held to the same rule."""
    named = getattr(config, "transformers_weights", None)
    if named is not None and not allow_pickle and not _plain(named):
        raise BadInput(
            f"{source}: config.json names the weights {str(named)[:80]!r}, and only *.safetensors files beside it are"
            " opened; take transformers_weights out of it."
        )


def json_object(path: Path, limit: int = LARGEST_JSON) -> dict[str, Any]:
    """The object in a JSON file of ordinary size."""
    content: dict[str, Any] = _json(path, dict, "an object", limit)
    return content


def json_list(path: Path) -> list[Any]:
    """The list in a JSON file of ordinary size."""
    content: list[Any] = _json(path, list, "a list", LARGEST_JSON)
    return content


def _json(path: Path, kind: type, name: str, limit: int) -> Any:
    if path.stat().st_size > limit:
        raise BadInput(f"{path} has {path.stat().st_size:,} bytes, and a file of its kind at most {limit:,}.")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise BadInput(f"{path}: a configuration file is not JSON that can be read ({reason}).") from error
    if not isinstance(content, kind):
        raise BadInput(f"{path} holds a JSON {type(content).__name__}, and {name} was expected; download it again.")
    return content


def _plain(name: object) -> bool:
    """A name of a file in the same folder. It may be a symbolic link, as in the Hub's cache."""
    return isinstance(name, str) and name.endswith(".safetensors") and not set(name) & set("/\\:\0")


def _check_adapter(folder: Path, allow_pickle: bool) -> None:
    """transformers would follow an adapter alone to the model it names; one beside its model is read with it."""
    if not (folder / ADAPTER).is_file():
        return
    if not (folder / "config.json").is_file():
        raise BadInput(_ADAPTED.format(source=f"The folder {str(folder)!r}"))
    if not allow_pickle and not (folder / "adapter_model.safetensors").is_file():
        raise BadInput(
            f"The folder {str(folder)!r} has an adapter ({ADAPTER}) without adapter_model.safetensors; convert its"
            " weights to safetensors, or load it with --allow-pickle (in Python: allow_pickle=True)."
        )


_ADAPTED = (
    "{source} has an adapter, whose model is elsewhere; load that model, add the adapter"
    " (model.load_adapter of transformers) and give both to whence.load(model, tokenizer)."
)


def _without_weights(folder: Path) -> BadInput:
    pickled = [file.name for pattern in PICKLED for file in folder.glob(pattern)]
    if pickled:
        return BadInput(
            f"The folder {str(folder)!r} has only a pickled checkpoint ({pickled[0]}), which can run code when opened;"
            " convert it to safetensors, or load it with --allow-pickle (in Python: allow_pickle=True)."
        )
    return BadInput(f"The folder {str(folder)!r} has no weights: a *.safetensors file was expected.")
