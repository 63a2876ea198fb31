"""Token identifiability: can a hidden vector still be traced to its token (Brunner et al. 2020, sections 4 and B)?

The rate is the share of tokens whose hidden vector, after a probe fitted on other sentences, has the token's own input
embedding as its nearest neighbour among those of its sentence.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray

from whence import _arguments
from whence.corpus.hidden_states import states_of
from whence.corpus.resume import Progress
from whence.errors import BadInput
from whence.identity import experiment
from whence.identity import saved_probes as saved
from whence.identity.adam import LEARNING_RATE
from whence.identity.dataset import labelled, outcomes
from whence.identity.experiment import Result, Settings, run, tested
from whence.identity.folds import Fold, folds_of
from whence.identity.probes import Fitted
from whence.identity.states import States
from whence.identity.token_labels import columns
from whence.models.fingerprint import provenance
from whence.models.load import Model, loaded
from whence.text.sentence import sentences

CHOICES = {**experiment.CHOICES, "embeddings": ("output", "sum")}


class Done(NamedTuple):
    """An experiment with its results, layer by layer and fold by fold."""

    settings: Settings
    folds: Sequence[Fold]
    layers: list[int]
    results: list[Result]


def identify(
    model: Model,
    corpus: Iterable[object],
    probe: str | Path = "linear",
    *,
    loss: str = "cosine",
    solver: str = "fast",
    folds: int = 10,
    layers: int | Iterable[int] | None = None,
    test_layers: int | Iterable[int] | None = None,
    target: str = "input",
    offset: int = 0,
    train_share: float = 1.0,
    seed: int = 0,
    embeddings: str = "output",
    learning_rate: float = LEARNING_RATE,
    tokens: bool = False,
    save: str | Path | None = None,
    truncate: bool = False,
    cache: str | Path | None = None,
    memory_limit: int | None = None,
    progress: Progress | None = None,
) -> xarray.Dataset:
    """How often a token is recognised from its hidden vector, by layer and fold.

    Args:
        model: a loaded model
        corpus: any iterable of texts or sentences; `whence.read` gives one. Of an encoder-decoder, pairs of a source
            and its answer: the states are the decoder's, of the answer's tokens
        probe: "naive" (the vector as it is), "linear", "mlp", or a file of probes written with `save`, which is
            applied to every sentence as it was fitted
        loss: "cosine" or "l2", for the fit and for the look-up
        solver: "fast" (closed form) or "adam" (as published)
        folds: how many times the sentences are split into those that train, validate and test
        layers: whose vectors are probed, 1 to the last unless given; 0 is the input embedding itself
        test_layers: also test every probe on these layers: `transfer(trained_on, tested_on, fold)`
        target: what is recovered: the "input" embedding, or the state of the "previous" layer
        offset: recover the token this many positions to the right (left when negative)
        train_share: fit on this share of the training sentences
        seed: of the folds and of the fit
        embeddings: the "output" of the embedding layer, or the "sum" before its norm
        learning_rate: of the solver "adam"
        tokens: add the outcome of every token, to be broken down by its annotations
        save: a file into which the fitted probes are written
        truncate: cut texts that are longer than the model takes, which are an error otherwise
        cache: the folder of hidden states; by default WHENCE_CACHE, or the user's cache folder
        memory_limit: in bytes; by default the free memory
        progress: progress(name, done, total) is called during the work, and may end it by raising

    Returns:
        A Dataset with `rate(layer, fold)` and what was asked for beside it. States are kept in `cache`: a second
        experiment reads them from there.

    After Brunner et al. (2020), sections 4 and B.

    Examples:
        >>> texts = ["Paris is a city.", "A cat sat.", "It rained in the north."]
        >>> whence.identify(whence.load(), texts, "naive", folds=3, layers=[1], cache="states").rate.dims
        ('layer', 'fold')
    """
    _check_choices(loss=loss, solver=solver, target=target, embeddings=embeddings)
    folds, offset = _arguments.whole("folds", folds, 1), _arguments.whole("offset", offset, -_arguments.LARGEST)
    seed = _arguments.seed_of(seed)
    memory_limit = None if memory_limit is None else _arguments.whole("memory_limit", memory_limit, 1)
    learning_rate = _arguments.positive("learning_rate", learning_rate)
    train_share = _arguments.positive("train_share", train_share)
    texts = list(corpus) if isinstance(sentences(corpus), Iterator) else corpus  # it is read more than once
    model = loaded(model, two_stacks=True)
    if model.encoder is not None and embeddings == "sum":
        raise BadInput("Of two stacks layer 0 is the output of the decoder's embeddings; leave embeddings= out.")
    count, fitted = model.anatomy.layers, saved.named(probe, model)
    every = range(1, count + 1) if fitted is None else ()
    probed = sorted(set(_arguments.layers(every if layers is None else layers, 0, count, some=layers is not None)))
    others = _arguments.layers(() if test_layers is None else test_layers, 0, count, some=test_layers is not None)
    across = tuple(sorted(set(others)))
    states = states_of(model, texts, embeddings, truncate, cache, memory_limit, progress)
    if fitted is None:
        settings = Settings(str(probe), loss, solver, target, offset, seed, learning_rate, across)
        cuts = folds_of(len(states.lengths), folds, seed, train_share)
        done = _experiment(states, settings, cuts, probed, save is not None, progress)
    else:
        done = _applied(states, fitted, probed, across)
    dataset = labelled(done.results, states, done.settings, done.folds, done.layers)
    if tokens:
        labels = columns(model, texts, states, truncate)
        dataset = dataset.merge(outcomes(done.results, states, done.layers, labels))
    extra = {"embeddings": embeddings, "train_share": train_share, "truncate": truncate, "folds": len(done.folds)}
    dataset = dataset.assign_attrs(_about(model, corpus, states, done.settings, extra))
    if save is not None:
        _save(Path(save), done, dataset.attrs)
    return dataset


def _check_choices(**choices: str) -> None:
    for name, value in choices.items():
        if value not in CHOICES[name]:
            raise BadInput(f"There is no {name} {value!r}; there are: {', '.join(CHOICES[name])}.")


def _check_offset(states: States, offset: int) -> None:
    shortest = int(states.lengths.min())
    if abs(offset) >= shortest:
        raise BadInput(
            f"An offset of {offset} leaves nothing to find in the shortest sentence, which has {shortest} tokens;"
            " ask for a smaller one, or leave short sentences out."
        )


def _experiment(
    states: States,
    settings: Settings,
    folds: Sequence[Fold],
    layers: list[int],
    keep_weights: bool,
    progress: Progress | None,
) -> Done:
    _check_offset(states, settings.offset)
    return Done(settings, folds, layers, run(states, settings, folds, layers, keep_weights, progress))


def _applied(states: States, probes: saved.Saved, probed: list[int], across: tuple[int, ...]) -> Done:
    """Saved probes, tested on every sentence: nothing is trained, so all are test sentences."""
    settings = replace(probes.settings, test_layers=across)
    _check_offset(states, settings.offset)
    available = sorted({layer for layer, _ in probes.fitted})
    missing = [layer for layer in probed if layer not in available]
    if missing:
        raise BadInput(f"{str(probes.path)!r} has no probe for layer {missing[0]}; it has those of {available}.")
    none, every = np.empty(0, dtype=np.int64), np.arange(len(states.lengths))
    folds = [Fold(number, none, none, every) for number in sorted({fold for _, fold in probes.fitted})]
    layers = probed or available
    results = [
        tested(settings, states, layer, fold, Fitted(probes.weights(layer, fold.number), {}))
        for layer in layers
        for fold in folds
    ]
    return Done(settings, folds, layers, results)


def _save(path: Path, done: Done, about: dict[str, Any]) -> None:
    weights = {(result.layer, result.fold): result.weights for result in done.results}
    saved.save(path, weights, about | {"settings": asdict(done.settings)})


def _about(
    model: Model, corpus: Iterable[object], states: States, settings: Settings, extra: dict[str, Any]
) -> dict[str, Any]:
    """The provenance of the numbers, in types that every file format keeps."""
    own = {
        "papers": "brunner2020",
        "corpus": str(getattr(corpus, "name", "")),
        "corpus_sha256": states.corpus_sha256,
        "weights_sha256": states.weights_sha256,
        "width": states.width,
        "sentences": len(states.lengths),
        "tokens": len(states.ids),
        "probe": settings.probe,
        "loss": settings.loss,
        "solver": "" if settings.probe == "naive" else settings.solver,
        "target": settings.target,
        "offset": settings.offset,
    }
    return provenance(model, ["identify"], asdict(settings) | extra) | own
