"""Ray: the same folder byte for byte, whatever becomes of the nodes."""

import random
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import whence
from tests import tiny
from tests.corpus.test_run import content
from whence.corpus.engines import ray as engine
from whence.corpus.parts import Part
from whence.errors import BadInput, Unsupported

MEMORY = 80 * 2**20


@pytest.fixture(scope="module")
def model():
    return tiny.model()


@pytest.fixture(scope="module")
def cluster():
    """A head with one processor, and the library that speaks to it; nodes are added by the tests."""
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray.cluster_utils import Cluster

    found = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": MEMORY, "include_dashboard": False},
    )
    ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
    yield found
    ray.shutdown()
    found.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")  # of Ray's own processes and settings
def test_a_node_is_killed_in_mid_run(model, cluster, tmp_path):
    asked = {"measures": ["mixing", "attention"], "part_size": 20, "threads": 1}
    whence.run(model, tiny.texts(500), out=tmp_path / "here", **asked)
    second = cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
    killed = []

    def kill(done, total):
        if done >= 200 and not killed:
            cluster.remove_node(second, allow_graceful=False)
            killed.append(done)

    whence.run(model, tiny.texts(500), out=f"file://{tmp_path}/there", engine="ray", progress=kill, **asked)
    assert killed
    assert content(tmp_path / "there") == content(tmp_path / "here")
    # begun by one engine and finished by the other
    for name in ("tokens/00003.parquet", "parts/00007.json"):
        (tmp_path / "here" / name).unlink()
    whence.run(model, tiny.texts(500), out=tmp_path / "here", engine="ray", workers=1, **asked)
    assert content(tmp_path / "there") == content(tmp_path / "here")


def test_without_the_package_it_says_what_to_install(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(Unsupported, match=r"pip install 'whence\[ray\]'"):
        whence.run(model, ["ada"], "mixing", tmp_path / "run", engine="ray")


class FakeRay:
    """Actors that are lost when a script says so; calls are answered in a random order."""

    class exceptions:  # noqa: N801
        class RayActorError(Exception): ...

        class RayTaskError(Exception): ...

    def __init__(self, seed: int, lost: float):
        self.chance, self.lost = random.Random(seed), lost

    def wait(self, calls, num_returns):
        chosen = self.chance.choice(calls)
        return [chosen], [call for call in calls if call is not chosen]

    def get(self, call):
        method, part = call
        if method == "do" and self.chance.random() < self.lost:
            raise self.exceptions.RayActorError("lost")
        if method == "ready" and self.lost == 1:
            raise self.exceptions.RayActorError("cannot be made\nat all")
        return part


class FakeActor:
    def __init__(self):
        self.do = SimpleNamespace(remote=lambda part: ("do", part))
        self.ready = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: ("ready", object())))


@given(st.integers(0, 12), st.integers(1, 4), st.integers(0, 99))
def test_every_part_comes_once_whoever_is_lost(count, workers, seed):
    parts = [Part(number, 0, ()) for number in range(count)]
    actors = [FakeActor() for _ in range(workers)]
    found = list(engine._shared_out(FakeRay(seed, 0.1), actors, iter(parts)))
    assert sorted(part.number for part in found) == list(range(count))


def test_what_goes_wrong_there_is_heard_here_in_one_sentence():
    ray = FakeRay(0, 0)
    told = ray.exceptions.RayTaskError("a long traceback")
    told.cause = BadInput("Sentence 3 is too long.")
    ray.get = lambda call: ray.exceptions.RayTaskError if call[0] == "ready" else _raise(told)
    with pytest.raises(BadInput, match=r"^Sentence 3 is too long.$"):
        list(engine._shared_out(ray, [FakeActor()], iter([Part(0, 0, ())])))


def _raise(error):
    raise error


def test_workers_that_cannot_be_made():
    with pytest.raises(BadInput, match=r"^No Ray worker could be started \(cannot be made\)"):
        list(engine._shared_out(FakeRay(0, 1), [FakeActor(), FakeActor()], iter([Part(0, 0, ())])))


def test_a_part_that_costs_every_worker_is_given_up():
    losses = {}
    for _ in range(engine.LOSSES - 1):
        engine._count_loss(losses, Part(3, 9, ()), RuntimeError("died\nat length"))
    with pytest.raises(BadInput, match=r"5 workers were lost at part 3 \(died\)"):
        engine._count_loss(losses, Part(3, 9, ()), RuntimeError("died"))
