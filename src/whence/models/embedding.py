"""How an embedding model makes one vector of a text, where files of sentence-transformers beside it say so."""

from pathlib import Path
from typing import Any

from transformers.utils import cached_file

from whence.errors import BadInput, Unsupported
from whence.models.checkpoint import QUIETLY, json_list, json_object
from whence.models.load import Model

MODULES = "modules.json"
# parts of such a model that leave the direction of the pooled vector as it is
KNOWN = ("Transformer", "Pooling", "Normalize")
# the settings of a pooling in their files -> rows of `pooling.POOLED`; a multiple has the same direction
SETTINGS = {
    "pooling_mode_cls_token": "first",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean",
    "pooling_mode_lasttoken": "last",
}
NAMED = {"cls": "first", "mean": "mean", "mean_sqrt_len_tokens": "mean", "lasttoken": "last"}


def pooling_of(model: Model) -> str:
    """The pooling that the checkpoint names; refused where it names none, or does more than pool."""
    modules = _file(model, MODULES)
    if modules is None:
        raise BadInput(
            f"How {model.id} makes one vector of a text is not said by its files; name it: pooling='mean', 'first' or"
            " 'last'."
        )
    listed = [module for module in json_list(modules) if isinstance(module, dict)]
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in listed]
    if others := [kind for kind in kinds if kind not in KNOWN]:
        raise Unsupported(
            f"{model.id} has a part of its own behind the pooling ({others[0]}), which whence does not read; for the"
            " similarity without it, name the pooling: pooling='mean', 'first' or 'last'."
        )
    paths = [str(module.get("path", "")) for module, kind in zip(listed, kinds, strict=True) if kind == "Pooling"]
    settings = _file(model, f"{paths[0]}/config.json") if paths else None
    way = None if settings is None else _way(json_object(settings))
    if way is None:
        raise Unsupported(
            f"{model.id} pools in a way that is no sum of its tokens with weights; name another: pooling='mean',"
            " 'first' or 'last'."
        )
    return way


def _way(settings: dict[str, Any]) -> str | None:
    """Of several at once, whose vectors would stand one behind the other, none."""
    chosen = [name for name, value in settings.items() if name.startswith("pooling_mode_") and value is True]
    if len(chosen) == 1:
        return SETTINGS.get(chosen[0])
    return None if chosen else NAMED.get(str(settings.get("pooling_mode")))


def _file(model: Model, name: str) -> Path | None:
    source = (model.origin or {}).get("model")
    if source is None or ".." in name:
        return None
    folder = Path(str(source))
    if folder.is_dir():
        return folder / name if (folder / name).is_file() else None
    path = cached_file(str(source), name, revision=(model.origin or {}).get("revision"), **QUIETLY)
    return None if path is None else Path(path)
