"""Probes in a safetensors file: written after an experiment, applied to new text."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from whence.errors import BadInput
from whence.identity.probes import PROBES, Weights
from whence.models.load import Model

ENDING = ".safetensors"


def save(path: Path, weights: Mapping[tuple[int, int], Weights], about: Mapping[str, Any]) -> Path:
    """One file with the weights by layer and fold, and what they were fitted for."""
    tensors = {
        f"layer_{layer:03}.fold_{fold:02}.{name}": value.contiguous()
        for (layer, fold), found in weights.items()
        for name, value in found.items()
    }
    fresh = path.with_name(path.name + ".new")
    save_file(tensors, fresh, metadata={"whence": json.dumps(about)})
    os.replace(fresh, path)
    return path


class Saved:
    """A file of probes, opened: what they were fitted for, and the weights of one layer and fold at a time."""

    def __init__(self, path: Path):
        self.path = path
        try:
            self._file = safe_open(path, framework="pt")
        except FileNotFoundError as error:
            raise BadInput(f"There is no file {str(path)!r} with probes.") from error
        except (SafetensorError, OSError) as error:
            raise BadInput(f"{str(path)!r} is not a file of probes ({error}).") from error
        about = (self._file.metadata() or {}).get("whence")
        if about is None:
            raise BadInput(f"{str(path)!r} holds no probes of whence; write some with --save.")
        self.about: dict[str, Any] = json.loads(about)

    @property
    def fitted(self) -> list[tuple[int, int]]:
        """Layer and fold of every probe."""
        found = set()
        for name in self._file.keys():  # noqa: SIM118  (not a dict)
            layer, fold, _ = name.split(".")
            found.add((int(layer.removeprefix("layer_")), int(fold.removeprefix("fold_"))))
        return sorted(found)

    def weights(self, layer: int, fold: int) -> Weights:
        return dict(self._named(f"layer_{layer:03}.fold_{fold:02}."))

    def _named(self, prefix: str) -> Iterator[tuple[str, Any]]:
        for name in self._file.keys():  # noqa: SIM118  (not a dict)
            if name.startswith(prefix):
                yield name.removeprefix(prefix), self._file.get_tensor(name)


def named(probe: str | Path, model: Model) -> Saved | None:
    """The file, when one is named; None for a probe to be fitted."""
    if str(probe) in PROBES:
        return None
    if not str(probe).endswith(ENDING):
        raise BadInput(
            f"There is no probe {str(probe)!r}; there are: {', '.join(PROBES)}, or a {ENDING} file of probes."
        )
    found = Saved(Path(probe))
    if found.about["width"] != model.anatomy.width:
        raise BadInput(
            f"The probes in {str(probe)!r} are for vectors of {found.about['width']} numbers ({found.about['model']}),"
            f" and those of {model.id} have {model.anatomy.width}."
        )
    return found
