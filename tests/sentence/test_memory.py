"""What a measure says it will take against the resident memory of a process of its own; limits; layers lower both."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from benchmarks.memory import stated

import whence
from tests.sentence.taken import SAME
from whence.errors import BadInput
from whence.linear import cost
from whence.linear.matrices import bytes_of
from whence.linear.propagate import Propagator
from whence.measures import takes
from whence.measures.flow.takes import Chain
from whence.measures.table import MEASURES
from whence.measures.takes import Sizes
from whence.models.encode import encode
from whence.models.linearise import linearised
from whence.models.memory import HEAP, Needs, budget, resident
from whence.sentence.why import NEEDS
from whence.text.sentence import sentence

FACTOR, SETUP = 1.5, 6_000_000  # bytes that are set up at the first use
ROOT = Path(__file__).parents[2]
TEXT = "the new bridge over the river will be open in May"
# what is freed goes back to the system at once, so that resident is what is alive
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536"}


@pytest.fixture(scope="module")
def cells():
    program = [sys.executable, "-m", "tests.sentence.taken"]
    found = subprocess.run(program, cwd=ROOT, env=os.environ | ALLOCATOR, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in found.stdout.splitlines()]


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc, which is Linux's")
@pytest.mark.parametrize("name", [name for name in MEASURES if name not in SAME])
def test_what_is_said_is_what_is_taken(cells, name):
    found = [cell for cell in cells if cell["name"] == name]
    assert len(found) >= 3
    for cell in found:
        assert cell["took"] <= FACTOR * cell["said"] + SETUP, cell
        assert cell["said"] <= FACTOR * cell["took"] + SETUP, cell


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read from /proc, which is Linux's")
@pytest.mark.parametrize("name", NEEDS)
def test_what_is_said_of_predictions_is_what_is_taken(cells, name):
    found = [cell for cell in cells if cell["name"] == f"why {name}"]
    assert len(found) == 3
    for cell in found:
        assert cell["took"] <= FACTOR * cell["said"] + SETUP, cell
        assert cell["said"] <= FACTOR * cell["took"] + SETUP, cell
        assert cell["limit"] is None or cell["took"] <= cell["limit"], cell
    if name == "share":
        assert found[1]["kept"] == 8 > found[2]["kept"], "within the limit, blocks are computed again"


@pytest.mark.parametrize("name", [name for name in MEASURES if name != "expansion"])  # which is of the weights alone
def test_fewer_layers_need_less(builtin, name):
    one, every = (sum(stated(builtin, 64, name, asked)) for asked in ({"layers": [1]}, {}))
    assert one < every


@pytest.mark.parametrize("name", ["contribution", "jacobian"])
def test_fewer_sources_need_less(builtin, name):
    assert stated(builtin, 64, name, {"sources": [3]}) < stated(builtin, 64, name, {})


@pytest.mark.parametrize("name", MEASURES)
def test_more_than_the_limit_is_refused_before_anything_runs(builtin, name, monkeypatch):
    monkeypatch.setattr("whence.sentence.measure._arrays", lambda *given: pytest.fail("it was computed"))
    with pytest.raises(BadInput, match=r"^13 tokens need .* for what was asked and 10 kB may be used;.*\(layers=\)"):
        whence.measure(builtin, TEXT, name, memory_limit=10_000)


def test_what_does_not_fit_names_rows_that_would(builtin):
    """By the same option, with the memory it said."""
    written = " ".join([TEXT] * 40)
    with pytest.raises(BadInput, match=r"the rows of one token \(targets=\[-1\]\) need \d+ MB, .*or ask") as refused:
        whence.measure(builtin, written, ["attention", "norms"], memory_limit=100_000_000)
    assert int(str(refused.value).split("need ")[2].split(" MB")[0]) <= 100
    rows = whence.measure(builtin, written, ["attention", "norms"], targets=[-1], memory_limit=100_000_000)
    assert rows.attention.shape[2] == 1


def test_derivatives_get_what_the_limit_leaves(builtin):
    """A limit that is less than they would like is kept, not refused."""
    wide = sum(stated(builtin, 13, "contribution", {}))
    limit = int(0.8 * wide) + HEAP
    found = whence.measure(builtin, TEXT, "contribution", memory_limit=limit)
    everything = whence.measure(builtin, TEXT, "contribution")
    assert float(abs(found.contribution - everything.contribution).max()) < 0.1
    needs = Needs(results=1, held=10, uses=lambda memory: memory, least=5)
    assert budget(needs, torch.device("cpu"), HEAP + 100, most=1000) == 89
    assert budget(needs, torch.device("cpu"), 10, most=1000) == 5


def test_host_and_device_are_counted_apart():
    needs = Needs(results=7, held=10, uses=lambda memory: 0)
    assert needs.on(torch.device("cpu")) == 17
    assert needs.on(torch.device("cuda")) == 10


@pytest.mark.parametrize("tokens", [20, 100])
def test_lengths_hold_the_vectors_of_every_head(builtin, tokens):
    """Before the norm and past it: more than all pairs, as long as a text is shorter than a vector."""
    anatomy = builtin.anatomy
    vectors = 2 * 4 * anatomy.heads * tokens * anatomy.width
    held = takes.lengths(Sizes.of(anatomy, tokens, (1,), {}), {}).held
    assert vectors < held < 2 * vectors


def test_what_the_allocator_keeps_is_bounded():
    assert resident(1000) == 1500
    assert resident(10**10) == 10**10 + HEAP


@pytest.mark.parametrize("memory", [10**8, 2**31])
def test_vectors_are_counted_as_they_travel(builtin, memory):
    """The arithmetic from sizes is that of a real chain."""
    batch = encode(builtin.anatomy, builtin.tokenizer, sentence(TEXT)).batch
    said = Chain(Sizes.of(builtin.anatomy, 13, (1, 2), {}))
    with linearised(builtin.anatomy, batch, depth=2) as chain:
        propagator = Propagator(chain, memory)
        assert len(chain.steps) == 2
        assert said.maps == bytes_of(chain.steps[0])
        for least in (1, cost.VECTORS):
            assert said._portion(memory, least) == propagator.portion(least)
        for maps in (0, said.maps):
            assert said._waiting(memory, maps) == propagator.waiting(maps)
        for vectors in (10, 1000, 100_000):
            assert said._pays(min(vectors, said._waiting(memory, said.maps))) == propagator.multiplies(vectors)
