"""Many models by name: globs, revisions and models in memory, loaded one at a time by whoever walks over them."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from glob import glob, has_magic
from os.path import commonpath
from pathlib import Path
from typing import Any

from whence.errors import BadInput
from whence.models.fingerprint import weights_sha256
from whence.models.load import Model, load, loaded

Load = Callable[..., Model]
# the name of a checkpoint ends in its step: checkpoint-500, step1000, seed_0-step_20k, stage1-step500-tokens3B
_STEP = re.compile(
    r"^(?P<series>.*?)[-_/@]?(?:global[-_]?step|step|checkpoint|ckpt|iteration|iter|epoch)[-_]?(?P<step>\d+)"
    r"(?P<unit>[kKmM]?)(?:-tokens?\d+[BM])?$"
)
_UNITS = {"": 1, "k": 10**3, "m": 10**6}


@dataclass(frozen=True)
class Named:
    """A model that is not loaded yet, with the name it has in tables and charts."""

    source: Any
    "What `whence.load` takes, or a model that is loaded."
    revision: str | None
    name: str
    folder: str = ""
    "A name for its folder, unlike that of any other."

    @property
    def step(self) -> int | None:
        """After which training step it was kept, if its name ends in one."""
        match = _STEP.match(self.name)
        return int(match["step"]) * _UNITS[match["unit"].lower()] if match else None

    @property
    def series(self) -> str:
        """Its name without the step: which training it is a checkpoint of."""
        match = _STEP.match(self.name)
        return match["series"] if match else self.name

    def load(self, load: Load = load) -> Model:
        """The model; `load` is called with its source and, where one was named, the revision."""
        if isinstance(self.source, Model):
            return loaded(self.source)
        return load(self.source) if self.revision is None else load(self.source, revision=self.revision)

    @property
    def state(self) -> list[Any]:
        """What changes when the model does: the sizes and times of its files, or the hash of weights in memory."""
        if isinstance(self.source, Model):
            return [self.source.id, self.source.revision, weights_sha256(self.source)]
        path = Path(str(self.source)).expanduser()
        files = sorted(path.glob("*")) if path.is_dir() else [path] if path.is_file() else []
        states = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
        return [str(self.source), self.revision, *states]


def several(models: object) -> list[Named]:
    """The models that were named, in order: one or many of Hub ids, `id@revision`, folders, globs, loaded models.

    >>> [model.name for model in several("org/model@step1000")], several("org/model@step1000")[0].step
    (['org/model@step1000'], 1000)
    """
    sources = list(models) if isinstance(models, Iterable) and not isinstance(models, str | Path) else [models]
    if not sources:
        raise BadInput("No model was named; name one, or several.")
    named = [entry for source in sources for entry in _expanded(source)]
    short = _shortened([entry for entry in named if isinstance(entry.source, str | Path)])
    return _folders(_unlike([short.get(entry.name, entry) for entry in named]))


def _expanded(source: Any) -> list[Named]:
    if source is None or isinstance(source, Model):
        return [Named(source, None, "whence/builtin" if source is None else source.id)]
    if not isinstance(source, str | Path):
        raise BadInput(f"A model is named by a text or given as whence.load returns it, not {type(source).__name__}.")
    text = str(source)
    if has_magic(text) and not Path(text).exists():
        places = sorted(glob(str(Path(text).expanduser())), key=_natural)
        folders = [place for place in places if Path(place).is_dir() or place.endswith(".gguf")]
        if not folders:
            raise BadInput(f"No folder or .gguf file is called {text!r}.")
        return [Named(place, None, place) for place in folders]
    name, at, revision = text.rpartition("@")
    if at and name and not Path(text).exists():
        return [Named(name, revision, text)]
    return [Named(text, None, text.rstrip("/"))]


def _natural(path: str) -> list[object]:
    """step-30 before step-100."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path)]


def _shortened(named: Sequence[Named]) -> dict[str, Named]:
    """Of several folders, what tells them apart: their paths below the folder that all are in."""
    folders = {entry.name: Path(entry.name).expanduser().absolute() for entry in named if Path(entry.name).exists()}
    if len(folders) < 2:
        return {}
    above = commonpath([str(folder.parent) for folder in folders.values()])
    return {
        entry.name: replace(entry, name=str(folders[entry.name].relative_to(above)))
        for entry in named
        if entry.name in folders
    }


def _unlike(named: Sequence[Named]) -> list[Named]:
    """Models in memory may share a name and are numbered; a model that is named twice is a mistake."""
    names: list[str] = []
    for entry in named:
        if entry.name in names and not isinstance(entry.source, Model):
            raise BadInput(f"The model {entry.name!r} is named twice; name it once.")
        count = sum(name == entry.name or name.startswith(f"{entry.name} (") for name in names)
        names.append(f"{entry.name} ({count + 1})" if entry.name in names else entry.name)
    return [replace(entry, name=name) for entry, name in zip(named, names, strict=True)]


def _folders(named: Sequence[Named]) -> list[Named]:
    taken: list[str] = []
    for entry in named:
        plain = re.sub(r"[^\w.-]+", "-", entry.name).strip("-.") or "model"
        taken.append(plain if plain not in taken else f"{plain}-{len(taken) + 1}")
    return [replace(entry, folder=folder) for entry, folder in zip(named, taken, strict=True)]
