"""The Dataset: rates by layer and fold, across layers when asked, and what became of every token when asked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray

from whence.identity.experiment import Result, Settings
from whence.identity.folds import Fold
from whence.identity.lookup import chance
from whence.identity.states import States

# variable -> unit and meaning
ABOUT = {
    "rate": ("share", "test tokens whose own vector was the nearest"),
    "type_rate": ("share", "test tokens whose nearest vector was one of the same vocabulary entry"),
    "train_rate": ("share", "the rate on the training sentences"),
    "validation_rate": ("share", "the rate on the validation sentences"),
    "test_loss": ("loss", "mean loss on the test sentences"),
    "chance": ("share", "the rate of guessing among the tokens of the sentence"),
    "transfer": ("share", "test rate of a probe trained on one layer at another"),
    "penalty": ("", "ridge penalty chosen on validation"),
    "steps": ("steps", "steps after the closed form, or in its place"),
    "epochs": ("epochs", "epochs until the training stopped"),
    "found": ("share", "whether the token was found; mean over the folds that tested it"),
    "type_found": ("share", "whether a token of the same vocabulary entry was found"),
    "answer": ("position", "the position taken for the token, in the first fold that tested it"),
    "tested": ("folds", "how many folds tested the token"),
}


def labelled(
    results: Sequence[Result], states: States, settings: Settings, folds: Sequence[Fold], layers: Sequence[int]
) -> xarray.Dataset:
    """rate, type_rate, train_rate and validation_rate by layer and fold; transfer when there are layers to test on."""
    shape = (len(layers), len(folds))

    def by_layer(values: Iterable[float]) -> tuple[tuple[str, str], np.ndarray]:
        return ("layer", "fold"), np.array(list(values), dtype=float).reshape(shape)

    data: dict[str, Any] = {
        "rate": by_layer(result.test.rate for result in results),
        "type_rate": by_layer(result.test.type_rate for result in results),
        "train_rate": by_layer(result.train_rate for result in results),
        "validation_rate": by_layer(result.validation_rate for result in results),
        "test_loss": by_layer(result.test.loss for result in results),
        "chance": ("fold", [chance(settings.task(states, layers[0]), fold.test) for fold in folds]),
    }
    for note in results[0].notes:
        data[note] = by_layer(result.notes[note] for result in results)
    coordinates: dict[str, Any] = {"layer": list(layers), "fold": [fold.number for fold in folds]}
    if settings.test_layers:
        across = np.array([result.across for result in results]).reshape(*shape, -1)
        data["transfer"] = ("trained_on", "tested_on", "fold"), across.transpose(0, 2, 1)
        coordinates |= {"trained_on": list(layers), "tested_on": list(settings.test_layers)}
    return described(xarray.Dataset(data, coordinates))


def outcomes(
    results: Sequence[Result], states: States, layers: Sequence[int], labels: Mapping[str, np.ndarray]
) -> xarray.Dataset:
    """found, type_found and answer of every tested token by layer, with what is known of the tokens."""
    size = (len(layers), len(states.ids))
    tested, found, type_found = (np.zeros(size) for _ in range(3))
    answer = np.full(size, -1)
    for result in results:
        row, places = layers.index(result.layer), result.test.places
        tested[row, places] += 1
        found[row, places] += result.test.found
        type_found[row, places] += result.test.type_found
        answer[row, places] = np.where(answer[row, places] < 0, result.test.answer, answer[row, places])
    there = np.flatnonzero(tested[0])
    data: dict[str, Any] = {
        "found": (("layer", "place"), (found[:, there] / tested[:, there])),
        "type_found": (("layer", "place"), (type_found[:, there] / tested[:, there])),
        "answer": (("layer", "place"), answer[:, there]),
        "tested": ("place", tested[0, there].astype(int)),
    }
    coordinates = {name: ("place", column[there]) for name, column in labels.items()}
    return described(xarray.Dataset(data, {"layer": list(layers), "place": there, **coordinates}))


def described(dataset: xarray.Dataset) -> xarray.Dataset:
    for name, (unit, meaning) in _present(dataset):
        dataset[name].attrs = {"units": unit, "long_name": meaning}
    return dataset


def _present(dataset: xarray.Dataset) -> Iterator[tuple[str, tuple[str, str]]]:
    return ((name, about) for name, about in ABOUT.items() if name in dataset)
