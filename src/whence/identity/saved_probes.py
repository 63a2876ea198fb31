"""Probes in a safetensors file: written after an experiment, applied to new text."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from whence.errors import BadInput
from whence.identity import tensors
from whence.identity.experiment import CHOICES, Settings
from whence.identity.probes import PROBES, Weights
from whence.models.load import Model
from whence.sealed import COUNT, POSITIVE, Damaged

ENDING = ".safetensors"
KIND = "probes"
# what such a file says of itself
SHAPE = {
    "kind": str,
    "model": str,
    "width": POSITIVE,
    "settings": {
        **dict.fromkeys(("probe", "loss", "solver", "target"), str),
        **dict.fromkeys(("offset", "seed"), int),
        "learning_rate": float | int,
        "test_layers": [COUNT],
    },
    "fitted": [[COUNT]],
}


def save(path: Path, weights: Mapping[tuple[int, int], Weights], about: Mapping[str, Any]) -> Path:
    """One file with the weights by layer and fold, and what they were fitted for."""
    named = {
        f"{_prefix(layer, fold)}{name}": value
        for (layer, fold), fitted in weights.items()
        for name, value in fitted.items()
    }
    return tensors.write(path, named, {**about, "kind": KIND, "fitted": [list(place) for place in weights]})


class Saved:
    """A file of probes, opened: what they were fitted for, and the weights of one layer and fold at a time."""

    def __init__(self, path: Path):
        self.path = path
        if not path.exists():
            raise BadInput(f"There is no file {str(path)!r} with probes.")
        try:
            self._file = tensors.Tensors(path, SHAPE)
            self.about = self._file.about
            self.settings = _settings(self.about, path)
        except Damaged as error:
            raise BadInput(f"{error}; write the probes again with --save.") from error

    @property
    def fitted(self) -> list[tuple[int, int]]:
        """Layer and fold of every probe."""
        return sorted((layer, fold) for layer, fold in self.about["fitted"])

    def weights(self, layer: int, fold: int) -> Weights:
        prefix = _prefix(layer, fold)
        names = [name for name in self._file.names if name.startswith(prefix)]
        try:
            return {name.removeprefix(prefix): self._file.read(name) for name in names}
        except Damaged as error:
            raise BadInput(f"{error}; write the probes again with --save.") from error


def named(probe: str | Path, model: Model) -> Saved | None:
    """The file, when one is named; None for a probe to be fitted."""
    if str(probe) in PROBES:
        return None
    if not str(probe).endswith(ENDING):
        raise BadInput(
            f"There is no probe {str(probe)!r}; there are: {', '.join(PROBES)}, or a {ENDING} file of probes."
        )
    saved = Saved(Path(probe))
    if saved.about["width"] != model.anatomy.width:
        raise BadInput(
            f"The probes in {str(probe)!r} are for vectors of {saved.about['width']} numbers ({saved.about['model']}),"
            f" and those of {model.id} have {model.anatomy.width}."
        )
    return saved


def _prefix(layer: int, fold: int) -> str:
    return f"layer_{layer:03}.fold_{fold:02}."


def _settings(about: Mapping[str, Any], path: Path) -> Settings:
    """As they were; a version to come may know others."""
    settings = about["settings"]
    unknown = [name for name in settings if name not in {field.name for field in fields(Settings)}]
    unknown += [f"{name} {settings[name]!r}" for name, known in CHOICES.items() if settings[name] not in known]
    if about["kind"] != KIND or unknown or any(len(place) != 2 for place in about["fitted"]):
        raise Damaged(f"{path} is of another version of whence, or holds something else than probes")
    return Settings(**settings | {"test_layers": tuple(settings["test_layers"])})
