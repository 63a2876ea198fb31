"""One experiment: a probe per layer and fold, fitted and tested; each is a checkpoint to resume from."""

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from whence.identity import adam, fast, fast_mlp, tensors
from whence.identity.folds import Fold
from whence.identity.lookup import Outcome, evaluate
from whence.identity.probes import LOSSES, PROBES, Fitted, Weights
from whence.identity.states import States
from whence.identity.task import Task
from whence.sealed import COUNT, Damaged, digest

log = logging.getLogger("whence")

Progress = Callable[[int, int | None], None]

Fit = Callable[..., Iterator[Fitted]]
CHOICES = {
    "probe": tuple(PROBES),
    "loss": tuple(LOSSES),
    "solver": ("fast", "adam"),
    "target": ("input", "previous"),
}
# what is written of a finished layer and fold besides its tensors
SHAPE = {
    "experiment": str,
    **dict.fromkeys(("layer", "fold"), COUNT),
    **dict.fromkeys(("loss", "train_rate", "validation_rate"), float | int),
    "across": [float | int],
    "notes": {str: float | int},
}


@dataclass(frozen=True)
class Settings:
    """The parameters; together with the states they determine every number."""

    probe: str = "linear"
    loss: str = "cosine"
    solver: str = "fast"
    target: str = "input"
    offset: int = 0
    seed: int = 0
    learning_rate: float = adam.LEARNING_RATE
    test_layers: tuple[int, ...] = ()

    def task(self, states: States, layer: int) -> Task:
        return Task(states, layer, max(layer - 1, 0) if self.target == "previous" else 0, self.offset)


@dataclass(frozen=True)
class Result:
    """One layer and fold. `across` is the test rate on each of the layers to test on."""

    layer: int
    fold: int
    test: Outcome
    train_rate: float
    validation_rate: float
    across: list[float]
    notes: dict[str, float]
    weights: Weights


def _nothing(task: Task, folds: Sequence[Fold], loss: str, seed: int = 0) -> Iterator[Fitted]:
    for _ in folds:
        yield Fitted({}, {})


def _fit(settings: Settings) -> Fit:
    trained = partial(adam.fit, settings.probe, learning_rate=settings.learning_rate)
    solvers: dict[str, dict[str, Fit]] = {
        "naive": {"fast": _nothing, "adam": _nothing},
        "linear": {"fast": fast.fit, "adam": trained},
        "mlp": {"fast": fast_mlp.fit, "adam": trained},
    }
    return solvers[settings.probe][settings.solver]


def run(
    states: States,
    settings: Settings,
    folds: Sequence[Fold],
    layers: Sequence[int],
    keep_weights: bool = False,
    progress: Progress | None = None,
) -> list[Result]:
    """Every layer and fold; what an earlier, interrupted call finished is not computed again."""
    described = [asdict(settings), [fold.train.tolist() + fold.test.tolist() for fold in folds], keep_weights]
    folder = states.folder / "unfinished" / digest(described)
    folder.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    for layer in layers:
        by_fold = {fold.number: result for fold in folds if (result := _read(folder, layer, fold.number)) is not None}
        missing = [fold for fold in folds if fold.number not in by_fold]
        for result in _finish(folder, states, settings, layer, missing, keep_weights):
            by_fold[result.fold] = result
            if progress:
                progress(len(results) + len(by_fold), len(layers) * len(folds))
        results += [by_fold[fold.number] for fold in folds]
    shutil.rmtree(folder, ignore_errors=True)
    return results


def _finish(
    folder: Path, states: States, settings: Settings, layer: int, folds: list[Fold], keep_weights: bool
) -> Iterator[Result]:
    """Fits and tests the folds of a layer one by one, and writes each down."""
    if not folds:
        return
    task = settings.task(states, layer)
    for fold, fitted in zip(folds, _fit(settings)(task, folds, settings.loss, seed=settings.seed), strict=True):
        result = tested(settings, states, layer, fold, fitted)
        yield _write(folder, result if keep_weights else replace(result, weights={}))


def tested(settings: Settings, states: States, layer: int, fold: Fold, fitted: Fitted) -> Result:
    """The outcome on the fold's test sentences, and the rates on the others; NaN where it has none."""

    def outcome(at: int, sentences: np.ndarray) -> Outcome:
        return evaluate(settings.probe, [fitted.weights], settings.loss, settings.task(states, at), sentences)[0]

    def rate(at: int, sentences: np.ndarray) -> float:
        return outcome(at, sentences).rate if len(sentences) else float("nan")

    return Result(
        layer=layer,
        fold=fold.number,
        test=outcome(layer, fold.test),
        train_rate=rate(layer, fold.train),
        validation_rate=rate(layer, fold.validation),
        across=[rate(at, fold.test) for at in settings.test_layers],
        notes=fitted.notes,
        weights=fitted.weights,
    )


def _file(folder: Path, layer: int, fold: int) -> Path:
    return folder / f"layer_{layer:03}_fold_{fold:02}.safetensors"


def _write(folder: Path, result: Result) -> Result:
    test = result.test
    columns = {"places": test.places, "found": test.found, "type_found": test.type_found, "answer": test.answer}
    content = {f"test.{name}": torch.from_numpy(column) for name, column in columns.items()}
    content |= {f"weights.{name}": value for name, value in result.weights.items()}
    numbers = {"loss": test.loss, "train_rate": result.train_rate, "validation_rate": result.validation_rate}
    about = numbers | {"across": result.across, "notes": result.notes}
    about |= {"experiment": folder.name, "layer": result.layer, "fold": result.fold}
    tensors.write(_file(folder, result.layer, result.fold), content, about)
    return result


def _read(folder: Path, layer: int, fold: int) -> Result | None:
    """A finished result; None when it is missing or damaged, and computed again."""
    path = _file(folder, layer, fold)
    try:
        return _result(tensors.Tensors(path, SHAPE), folder, layer, fold) if path.exists() else None
    except Damaged as error:
        log.warning("%s; it is computed again", error)
        return None


def _result(file: tensors.Tensors, folder: Path, layer: int, fold: int) -> Result:
    about = file.about
    if [about[name] for name in ("experiment", "layer", "fold")] != [folder.name, layer, fold]:
        raise Damaged(f"{file.path} is of another experiment, layer or fold")
    content = {name: file.read(name) for name in file.names}
    test = {name.removeprefix("test."): value.numpy() for name, value in content.items() if name.startswith("test.")}
    weights = {name.removeprefix("weights."): value for name, value in content.items() if name.startswith("weights.")}
    return Result(
        layer=layer,
        fold=fold,
        test=Outcome(**test, loss=about["loss"]),
        train_rate=about["train_rate"],
        validation_rate=about["validation_rate"],
        across=about["across"],
        notes=about["notes"],
        weights=weights,
    )
