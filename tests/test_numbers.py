"""Every number that a public verb takes: one that makes no sense is refused in one sentence, before any work."""

import inspect
import itertools
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import whence
from tests import tiny
from whence.errors import WhenceError

TEXT = "ada saw the cat"
TABLE = pandas.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [2.0, 1.0, 4.0, 3.0], "g": ["x", "y", "x", "y"]})
# verb -> how it is called with one argument more; every parameter that is a number stands in NUMBERS
CALLS = {
    "measure": lambda at, **more: whence.measure(at.model, TEXT, "mixing", **more),
    "lm_head": lambda at, **more: whence.lm_head(at.head, "ada saw [MASK]", **more),
    "why": lambda at, **more: whence.why(at.head, "ada saw [MASK]", measures="dependence", **more),
    "alternative_attention": lambda at, **more: whence.alternative_attention(
        at.model, TEXT, **{"layer": 1, "head": 0, **more}
    ),
    "run": lambda at, **more: whence.run(at.model, [TEXT], "mixing", at.folder(), **more),
    "cloze": lambda at, **more: whence.cloze(at.head, ["ada saw [MASK]"], **more),
    "perturb": lambda at, **more: whence.perturb(at.head, ["ada saw [MASK]"], ["no-end"], **more),
    "identify": lambda at, **more: whence.identify(
        at.model, [TEXT] * 4, "linear", **{"folds": 1, "cache": at.folder(), "layers": 1, **more}
    ),
    "lens": lambda at, **more: whence.lens(at.decoder, [TEXT] * 2, **{"layers": 1, "skip": 0, **more}),
    "study": lambda at, **more: whence.study("mixing", at.head, whence.read(at.corpus), at.folder(), **more),
    "read": lambda at, **more: list(whence.read(at.corpus, **more)),
    "stats.means": lambda at, **more: whence.stats.means(TABLE, "a", **more),
    "stats.correlations": lambda at, **more: whence.stats.correlations(TABLE, ["a", "b"], **more),
    "stats.contrasts": lambda at, **more: whence.stats.contrasts(TABLE, "a", "g", **more),
    "stats.regressions": lambda at, **more: whence.stats.regressions(TABLE, "a", ["b"], **more),
}
WHOLE = {
    "measure": ("layers", "targets", "top", "memory_limit"),
    "lm_head": ("position", "layer", "k"),
    "why": ("position", "generate", "seed", "alternatives", "memory_limit"),
    "alternative_attention": ("layer", "head", "row", "seed"),
    "run": ("workers", "threads", "layers", "neighbours", "part_size", "batch_tokens", "total"),
    "cloze": ("part_size",),
    "perturb": ("part_size",),
    "identify": ("folds", "layers", "test_layers", "offset", "seed", "memory_limit"),
    "lens": ("layers", "skip", "length", "texts", "workers", "threads", "part_size"),
    "study": ("sample",),
    "read": ("limit",),
    "stats.means": ("resamples", "seed"),
    "stats.correlations": ("resamples", "seed"),
    "stats.contrasts": ("permutations", "resamples", "seed"),
}
REAL = {
    "identify": ("train_share", "learning_rate"),
    "lens": ("error",),
    "run": ("gpus_per_worker",),
    **{f"stats.{name}": ("level",) for name in ("means", "correlations", "contrasts", "regressions")},
}
NO_NUMBER = (math.nan, math.inf, -math.inf, "7", b"7", True, 1 + 1j, [[1]], {}, np.array([1, 2]), object())
NOT_WHOLE = (*NO_NUMBER, 1.5, -(2**70), 2**70)
NOT_REAL = (math.nan, math.inf, -math.inf, "much", 0, -0.5, -(10**400), 10**400, None, [0.5, 0.5])


# those of which there has to be one at least
COUNTS = [("cloze", "part_size"), ("perturb", "part_size"), ("lm_head", "k"), ("measure", "memory_limit")]
COUNTS += [("why", name) for name in ("alternatives", "memory_limit")]
COUNTS += [("run", name) for name in ("workers", "threads", "part_size", "batch_tokens")]
COUNTS += [("study", "sample")]
COUNTS += [("identify", name) for name in ("folds", "memory_limit")]
COUNTS += [(f"stats.{name}", "resamples") for name in ("means", "correlations", "contrasts")]
OPTIONAL = ("error", "gpus_per_worker")  # None says nothing of these
SEVERAL = ("layers", "targets", "layer", "position", "test_layers")


def named(parameters):
    return [(verb, name) for verb, names in parameters.items() for name in names]


def prepared(folder):
    """Models, a corpus, and a new folder for each call."""
    (folder / "corpus.txt").write_text(TEXT)
    numbers = itertools.count()
    return SimpleNamespace(
        model=tiny.model(),
        head=whence.load(),
        decoder=tiny.model("llama"),
        corpus=str(folder / "corpus.txt"),
        folder=lambda: folder / f"run{next(numbers)}",
    )


@pytest.fixture(scope="module")
def at(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("numbers"))


def complaint(at, verb, name, value):
    """How the verb takes a value that makes no sense; None when it is refused in one line."""
    try:
        CALLS[verb](at, **{name: value})
    except WhenceError as error:
        return "several lines" if "\n" in str(error) else None
    except Exception as error:  # whatever it is, it should have been a sentence
        return f"{type(error).__name__}: {error}"
    return "accepted"


def senseless():
    """Verb, parameter, value."""
    for (verb, name), value in itertools.product(named(WHOLE), NOT_WHOLE):
        if name not in SEVERAL or not isinstance(value, np.ndarray | dict | list):
            yield verb, name, value
    for (verb, name), value in itertools.product(named(REAL), NOT_REAL):
        if not (value is None and name in OPTIONAL) and not (value == 0 and name == "gpus_per_worker"):
            yield verb, name, value
    yield from ((*place, value) for place, value in itertools.product(COUNTS, (0, -1, -0.0)))


@pytest.mark.slow
def test_numbers_that_make_no_sense():
    """In a process of its own: here types are checked on the way in, which they are not for a user."""
    code = "from tests.test_numbers import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{len(list(senseless()))} tried"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        at, tried = prepared(Path(folder)), 0
        for verb, name, value in senseless():
            tried += 1
            if (wrong := complaint(at, verb, name, value)) is not None:
                print(f"{verb}({name}={value!r:.30}): {wrong:.200}")
    print(f"{tried} tried")


@pytest.mark.parametrize("place", COUNTS, ids=" ".join)
def test_none_of_something(at, place):
    assert [complaint(at, *place, value) for value in (0, -1, 2**70)] == [None] * 3


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(named(WHOLE)), st.one_of(st.integers(-9, -1), st.integers(2**63, 2**80)))
def test_any_number_gives_an_answer_or_one_sentence(at, place, value):
    assert complaint(at, *place, value) in (None, "accepted")


def test_every_number_of_a_public_verb_is_tried():
    """What is annotated as a number, in whatever verb comes next."""
    verbs = {name: getattr(whence, name) for name in whence._VERBS}
    verbs |= {f"stats.{name}": getattr(whence.stats, name) for name in whence.stats.__all__}
    tried = {place for places in (named(WHOLE), named(REAL)) for place in places}
    numbers = []
    for verb, function in verbs.items():
        for name, parameter in inspect.signature(function).parameters.items():
            kinds = str(parameter.annotation).replace("[", " ").replace("]", " ").replace("|", " ").split()
            kinds += [getattr(parameter.annotation, "__name__", "")]
            number = {"int", "float"} & set(kinds) and "Callable" not in str(parameter.annotation)
            if number and name not in ("progress", "direction", "token", "label", "against", "spans"):  # some are texts
                numbers.append((verb, name))
    assert len(numbers) > 20 and not set(numbers) - tried
