"""One experiment: a probe per layer and fold, fitted and tested; each is written down, so interrupted work resumes."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from whence.identity import adam, fast, fast_mlp
from whence.identity.folds import Fold
from whence.identity.lookup import Outcome, evaluate
from whence.identity.probes import Fitted, Weights
from whence.identity.states import States
from whence.identity.task import Task
from whence.sealed import digest

Progress = Callable[[int, int | None], None]
Fit = Callable[..., Iterator[Fitted]]


@dataclass(frozen=True)
class Settings:
    """What is asked; together with the states it decides every number."""

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
    done = 0
    for layer in layers:
        missing = [fold for fold in folds if not _file(folder, layer, fold.number).exists()]
        for _ in _finish(folder, states, settings, layer, missing, keep_weights):
            done += 1
            if progress:
                progress(done + len(folds) - len(missing), len(layers) * len(folds))
        done += len(folds) - len(missing)
    results = [_read(_file(folder, layer, fold.number), layer, fold.number) for layer in layers for fold in folds]
    shutil.rmtree(folder, ignore_errors=True)
    return results


def _finish(
    folder: Path, states: States, settings: Settings, layer: int, folds: list[Fold], keep_weights: bool
) -> Iterator[None]:
    """Fits and tests the folds of a layer one by one, and writes each down."""
    if not folds:
        return
    task = settings.task(states, layer)
    for fold, fitted in zip(folds, _fit(settings)(task, folds, settings.loss, seed=settings.seed), strict=True):
        result = tested(settings, states, layer, fold, fitted)
        _write(_file(folder, layer, fold.number), result, keep_weights)
        yield


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


def _write(path: Path, result: Result, keep_weights: bool) -> None:
    """Under another name first: a file that is there is whole."""
    test = result.test
    columns = {"places": test.places, "found": test.found, "type_found": test.type_found, "answer": test.answer}
    tensors = {f"test.{name}": torch.from_numpy(column) for name, column in columns.items()}
    if keep_weights:
        tensors |= {f"weights.{name}": value.contiguous() for name, value in result.weights.items()}
    numbers = {"loss": test.loss, "train_rate": result.train_rate, "validation_rate": result.validation_rate}
    about = json.dumps(numbers | {"across": result.across, "notes": result.notes})
    fresh = path.with_suffix(".new")
    save_file(tensors, fresh, metadata={"about": about})
    os.replace(fresh, path)


def _read(path: Path, layer: int, fold: int) -> Result:
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a dict)
        about = json.loads(file.metadata()["about"])
    test = {name.removeprefix("test."): value.numpy() for name, value in tensors.items() if name.startswith("test.")}
    weights = {name.removeprefix("weights."): value for name, value in tensors.items() if name.startswith("weights.")}
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
