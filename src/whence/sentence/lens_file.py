"""A lens in a file: ours, with what it was fitted to and its standard errors, or one that others have published."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whence.errors import BadInput, Unsupported
from whence.identity import tensors
from whence.measures.lens.tuned import Tuned
from whence.models.hub import file_of
from whence.models.load import Model
from whence.sealed import COUNT, POSITIVE, Damaged
from whence.sentence.lens import Lens

ENDING, PICKLED = ".safetensors", (".pt", ".pth", ".bin")
KIND = "lens"
SHAPE = {
    "kind": str,
    "model": {"id": str, "weights_sha256": str},
    "corpus": {"name": str, "sha256": str},
    "layers": [COUNT],
    "texts": [POSITIVE],
    "error": [float | None],
    "tuned": {"ridge": [float], "explained": [float]},
    "skip": COUNT,
    "length": POSITIVE,
}


def save(lens: Lens, path: str | Path, errors: bool = True) -> Path:
    path = Path(path)
    if path.suffix != ENDING:
        raise BadInput(f"{str(path)!r} should end in {ENDING}.")
    if not path.parent.is_dir():
        raise BadInput(f"{str(path)!r} cannot be written: there is no folder {str(path.parent)!r}.")
    if "weights_sha256" not in lens.about["model"]:
        raise Unsupported("A lens that others have published says too little of its model; keep their file.")
    return tensors.write(path, *content(lens, errors))


def content(lens: Lens, errors: bool = True) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of the file, and what it says of them."""
    kept = {"groups": lens.groups if errors else lens.mean[None]}
    about = {
        **lens.about,
        "kind": KIND,
        "layers": list(lens.layers),
        "texts": list(lens.texts) if errors else [sum(lens.texts)],
        "error": [None if error != error else error for error in lens.error],
        "tuned": {"ridge": [], "explained": []},
    }
    if lens.tuned is not None:
        kept |= {"tuned": lens.tuned.matrices, "tuned_shift": lens.tuned.shifts}
        about["tuned"] = {"ridge": list(lens.tuned.ridge), "explained": list(lens.tuned.explained)}
    return kept, about


def load_lens(
    source: str | Path, model: Model | None = None, *, file: str | None = None, allow_pickle: bool = False
) -> Lens:
    """A lens that `lens.save` or a fit has written, or one that others have published; checked against `model`.

    A file of ours knows the weights that it was fitted to. A published one (of the Jacobian lens' authors, and of
    TransformerLens, which writes the same) knows a width and layers, and sometimes the model's name: block numbers
    from 0 become layers from 1, and standard errors and the tuned lens are missing.

    Args:
        source: a file, the folder of a fit (out=), or a repository on the Hub, with a `file` in it
        model: the model that it is to belong to; `Lens.read` checks it as well
        file: of the repository
        allow_pickle: published lenses are pickles of PyTorch; they are read as weights only, and not unless this says
            so

    Returns:
        The lens.

    Examples:
        >>> lens = whence.lens(whence.load(), ["Paris is the capital of France.", "A cat sat."], layers=[6])
        >>> whence.load_lens(lens.save("tiny.safetensors"), whence.load()).layers
        (6,)
    """
    path = _found(source, file)
    lens = _published(path, allow_pickle) if path.suffix in PICKLED else _ours(path)
    if model is not None:
        lens.check(model)
    return lens


def _found(source: str | Path, file: str | None) -> Path:
    if not isinstance(source, str | Path):
        raise BadInput(f"A lens is in a file, a folder or a repository, and {source!r:.40} was given; name it.")
    path = Path(source).expanduser()
    if path.is_dir():
        path = path / (file or f"lens{ENDING}")
    elif file is not None:
        return file_of(str(source), file)
    if not path.is_file():
        raise BadInput(
            f"There is no file {str(path)!r} with a lens; of a repository on the Hub, name the file in it too (file=)."
        )
    if path.suffix not in (ENDING, *PICKLED):
        raise BadInput(
            f"A lens is in a file that ends in {ENDING} or {', '.join(PICKLED)}, and {str(path)!r} was given."
        )
    return path


def _ours(path: Path) -> Lens:
    try:
        opened = tensors.Tensors(path, SHAPE)
        about = {name: value for name, value in opened.about.items() if name not in ("kind", "tensors")}
        read = {name: opened.read(name) for name in opened.names}
    except Damaged as error:
        raise BadInput(f"{error}; fit the lens again (whence.lens).") from error
    fitted, told = about.pop("tuned"), about.pop("error")
    linear = None
    if "tuned" in read:
        linear = Tuned(read["tuned"], read["tuned_shift"], tuple(fitted["ridge"]), tuple(fitted["explained"]))
    errors = tuple(float("nan") if error is None else error for error in told)
    return Lens(tuple(about.pop("layers")), read["groups"], tuple(about.pop("texts")), linear, about, errors)


def _published(path: Path, allow_pickle: bool) -> Lens:
    """{"J": {block: matrix}, "n_prompts", "d_model"}, or sums over prompts as they are kept during a fit."""
    if not allow_pickle:
        raise BadInput(
            f"{str(path)!r} is a pickle, which is not read unless asked for; if you trust it, allow it"
            " (allow_pickle=True, --allow-pickle): it is then read as weights only."
        )
    try:
        read = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, ValueError) as error:
        raise BadInput(f"{str(path)!r} cannot be read as weights only ({str(error).splitlines()[0]}).") from error
    matrices, texts = _of_published(path, read)
    blocks = sorted(matrices)
    groups = torch.stack([matrices[block].float() for block in blocks])[None]
    about = {"model": {"id": _name(read) or path.name}, "file": os.fspath(path)}
    return Lens(tuple(block + 1 for block in blocks), groups, (max(1, texts),), None, about)


def _of_published(path: Path, read: Any) -> tuple[dict[int, Tensor], int]:
    kept = read if isinstance(read, Mapping) else {}
    matrices, texts = kept.get("J", {}), kept.get("n_prompts", 1)
    if "jacobian_sum" in kept:
        texts = kept.get("n_done", 0)
        matrices = {block: total / max(1, texts) for block, total in kept["jacobian_sum"].items()}
    if not isinstance(matrices, Mapping) or not matrices or not _alike(matrices):
        raise BadInput(f"{str(path)!r} holds no lens: one square matrix per block under 'J' was expected.")
    return dict(matrices), int(texts)


def _alike(matrices: Mapping[Any, Any]) -> bool:
    """Whether these are square matrices of one size, by number of the block."""
    sizes = {tuple(matrix.shape) if isinstance(matrix, Tensor) else () for matrix in matrices.values()}
    square = all(len(size) == 2 and size[0] == size[1] for size in sizes)
    return len(sizes) == 1 and square and all(isinstance(block, int) for block in matrices)


def _name(read: Mapping[str, Any]) -> str | None:
    metadata = read.get("metadata")
    name = (metadata if isinstance(metadata, Mapping) else read).get("model_name")
    return name if isinstance(name, str) else None
