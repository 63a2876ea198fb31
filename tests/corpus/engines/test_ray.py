"""Ray: the same folder byte for byte, whatever becomes of the nodes."""

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import whence
from tests import tiny
from tests.corpus.test_run import content
from tests.families import build
from whence.corpus.engines import Cluster
from whence.corpus.engines import ray as engine
from whence.corpus.parts import Part
from whence.corpus.plan import planned
from whence.corpus.store import at
from whence.corpus.worker import Worker
from whence.errors import BadInput, Unsupported
from whence.models.fingerprint import hashed
from whence.text.sentence import Sentence

MEMORY = 80 * 2**20
PARAMETERS = {"layers": None, "maps": False, "neighbours": 1, "by": ("class",), "too_long": "refuse"}
PARAMETERS |= {"part_size": 2, "batch_tokens": 2048}
# what of a Worker the engine looks at before it sends it away
LIGHT = SimpleNamespace(plan=SimpleNamespace(threads=1), model=SimpleNamespace(device=torch.device("cpu")))
DRIVER = """
import os, sys, time
import ray
from tests.corpus.engines.test_ray import LIGHT
from whence.corpus.engines import ray as engine
from whence.corpus.parts import Part

class Endless:
    def __init__(self, shipped): pass
    def ready(self): pass
    def do(self, part): return os.getpid() if part.number == 0 else time.sleep(3600)

engine._Actor = Endless
ray.init(address=sys.argv[1], log_to_driver=False)
actors = engine._actors(ray, LIGHT, ray.put(None), 1)
for process in engine._shared_out(ray, actors, (Part(number, 0, ()) for number in range(2))):
    print(process, flush=True)
"""


@pytest.fixture(scope="module")
def model():
    return tiny.model()


@pytest.fixture(scope="module")
def cluster():
    """A head with one processor, and the library that speaks to it; nodes are added by the tests."""
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "object_store_memory": MEMORY, "include_dashboard": False}
    found = patiently(lambda: Cluster(initialize_head=True, head_node_args=head))
    ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
    yield found
    ray.shutdown()
    found.shutdown()


def patiently(start):
    """Ray gives a node thirty seconds to start, which on a busy machine are not always enough."""
    for _ in range(9):
        try:
            return start()
        except Exception as error:  # Ray raises a plain one
            if "timed out" not in str(error):
                raise
    return start()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")  # of Ray's own processes and settings
def test_a_node_is_killed_in_mid_run(model, cluster, tmp_path):
    asked = {"measures": ["mixing", "attention"], "part_size": 20, "threads": 1}
    whence.run(model, tiny.texts(500), out=tmp_path / "here", **asked)
    second = patiently(lambda: cluster.add_node(num_cpus=1, object_store_memory=MEMORY))
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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_what_predictions_rest_on_is_the_same_there(cluster, tmp_path):
    decoder = whence.load(build("llama"), tiny.tokenizer())
    asked = {"measures": "why", "part_size": 2, "threads": 1}
    corpus = [Sentence(text, labels={"answer": " ada bo"}) for text in tiny.texts(5)]
    whence.run(decoder, corpus, out=tmp_path / "here", **asked)
    whence.run(decoder, corpus, out=tmp_path / "there", engine="ray", workers=1, **asked)
    assert content(tmp_path / "there") == content(tmp_path / "here")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_a_lens_is_the_same_there(model, cluster):
    wanted = {"part_size": 1, "threads": 1}
    here = whence.lens(model, tiny.texts(3, seed=3), **wanted)
    there = whence.lens(model, tiny.texts(3, seed=3), engine="ray", workers=1, **wanted)
    assert torch.equal(there.groups, here.groups) and there.error == here.error


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_a_worker_is_killed_twice(cluster, tmp_path, monkeypatch):
    import ray

    class Killed:
        """Dies at part 2, and the next one too."""

        def __init__(self, shipped):
            self.folder = ray.get(shipped[0])

        def ready(self): ...

        def do(self, part):
            deaths = len(list(self.folder.iterdir()))
            if part.number == 2 and deaths < 2:
                (self.folder / f"{deaths}").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return part.number

    monkeypatch.setattr(engine, "_Actor", Killed)
    shipped = ray.put(tmp_path)  # held, as the engine does
    actors = engine._actors(ray, LIGHT, shipped, 1)
    found = engine._shared_out(ray, actors, (Part(number, 0, ()) for number in range(5)))
    assert sorted(found) == [0, 1, 2, 3, 4]
    assert len(list(tmp_path.iterdir())) == 2
    ray.kill(actors[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_a_worker_for_which_there_is_no_room(cluster, monkeypatch):
    import ray

    monkeypatch.setattr(engine, "PATIENCE", 0.2)
    crowded = SimpleNamespace(plan=SimpleNamespace(threads=64), model=LIGHT.model)
    actors = engine._actors(ray, crowded, ray.put(None), 1)
    with pytest.raises(BadInput, match=r"^No Ray worker was ready within 0.2 seconds; look"):
        list(engine._shared_out(ray, actors, iter([Part(0, 0, ())])))
    ray.kill(actors[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_actors_end_with_their_driver(cluster):
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, cluster.address], stdout=subprocess.PIPE, text=True)
    with driver:
        actor = int(driver.stdout.readline())
        os.kill(actor, 0)  # it is there
        driver.kill()
    for _ in range(6000):  # five minutes, which it never takes
        try:
            os.kill(actor, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the actor outlived its driver")


@pytest.mark.parametrize(("address", "said"), [(None, "Ray does not start here"), ("auto", "no Ray cluster at 'auto'")])
def test_a_cluster_that_does_not_start_is_one_sentence(model, tmp_path, monkeypatch, address, said):
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")

    def late(**asked):
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", late)
    with pytest.raises(BadInput, match=rf"{said} \(The current node timed out during startup\)\."):
        whence.run(model, tiny.texts(4), "mixing", tmp_path / "run", engine="ray", address=address)


@pytest.fixture
def named(tmp_path):
    """A model that was loaded by its name, and the folder that it came from."""
    folder = tmp_path / "model"
    build("llama", pad_token_id=0).save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return whence.load(folder), folder


def shipped(model, tmp_path):
    """As a worker gets it from the driver: pickled."""
    plan = planned(model, ["mixing"], threads=1, **PARAMETERS)
    sent = engine._shipped(Worker(model, plan, at(tmp_path / "run")), Cluster(model=hashed(model)))
    return pickle.dumps(sent)


def test_a_model_with_a_name_is_loaded_by_it(named, tmp_path):
    """No weights are sent, and those that are found under the name are the same."""
    model, _ = named
    sent = shipped(model, tmp_path)
    assert len(sent) < 20_000 < sum(parameter.nbytes for parameter in model.model.parameters())
    worker = pickle.loads(sent).worker()
    assert hashed(worker.model) == hashed(model) and worker.plan.measures == ("mixing",)
    alone = whence.load(model.model, model.tokenizer)
    assert len(shipped(alone, tmp_path)) > 100_000
    assert (
        hashed(pickle.loads(shipped(alone, tmp_path)).worker().model)["weights_sha256"]
        == hashed(model)["weights_sha256"]
    )


def test_other_weights_under_the_same_name_are_refused(named, tmp_path):
    model, folder = named
    sent = shipped(model, tmp_path)
    build("llama", seed=1, pad_token_id=0).save_pretrained(folder)
    with pytest.raises(BadInput, match=r"^A Ray worker on .* with weights other than the run's .*send the model"):
        pickle.loads(sent).worker()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
def test_two_workers_that_load_it_themselves(named, cluster, tmp_path):
    cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
    asked = {"measures": ["mixing"], "part_size": 2, "threads": 1}
    whence.run(named[0], tiny.texts(8), out=tmp_path / "here", **asked)
    whence.run(named[0], tiny.texts(8), out=tmp_path / "there", engine="ray", workers=2, gpus_per_worker=0, **asked)
    assert content(tmp_path / "there") == content(tmp_path / "here")


class Machines:
    """What of Ray decides how many actors there are."""

    def __init__(self, **resources):
        self.resources, self.asked = resources, []

    def cluster_resources(self):
        return self.resources

    def remote(self, **options):
        self.asked.append(options)
        return lambda kind: SimpleNamespace(remote=lambda shipped: object())


@pytest.mark.parametrize(("gpus", "count"), [(None, 16), (0, 16), (0.5, 8), (1, 4), (2, 2)])
def test_as_many_workers_as_there_are_gpus_for(gpus, count):
    machines = Machines(CPU=16, GPU=4)
    assert len(engine._actors(machines, LIGHT, None, None, gpus)) == count
    assert machines.asked[0]["num_gpus"] == (gpus or 0)


def test_more_gpus_than_there_are():
    with pytest.raises(BadInput, match=r"^The Ray cluster has 4 GPUs, and one worker takes 8; give fewer"):
        engine._actors(Machines(CPU=16, GPU=4), LIGHT, None, None, 8)
    with pytest.raises(BadInput, match=r"^gpus_per_worker is a part of 1 or a whole number, and 1.5 was given"):
        whence.run(tiny.model(), ["ada"], "mixing", gpus_per_worker=1.5)


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

    def wait(self, calls, num_returns, timeout):
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


def test_nobody_gets_ready():
    ray, waited = FakeRay(0, 0), []
    ray.wait = lambda calls, num_returns, timeout: (waited.append(timeout), ([], calls))[1]
    with pytest.raises(BadInput, match=r"^No Ray worker was ready within 300 seconds; look .* where it stopped"):
        list(engine._shared_out(ray, [FakeActor(), FakeActor()], iter([Part(0, 0, ())])))
    assert waited == [engine.PATIENCE]


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 99))
def test_only_those_who_are_not_at_work_are_waited_for_with_a_limit(count, workers, seed):
    ray, actors = FakeRay(seed, 0.1), [FakeActor() for _ in range(workers)]
    limits = []

    def wait(calls, num_returns, timeout):
        limits.append((any(method == "do" for method, _ in calls), timeout))
        return FakeRay.wait(ray, calls, num_returns, timeout)

    ray.wait = wait
    list(engine._shared_out(ray, actors, iter([Part(number, 0, ()) for number in range(count)])))
    assert set(limits) <= {(True, None), (False, engine.PATIENCE)}


def test_one_that_cannot_be_made_is_told_of(caplog):
    ray = FakeRay(0, 0)
    broken, sound = FakeActor(), FakeActor()
    broken.ready = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: ("broken", object())))
    ray.get = lambda call: _raise(ray.exceptions.RayActorError("no memory")) if call[0] == "broken" else call[1]
    ray.wait = lambda calls, num_returns, timeout: ([calls[0]], calls[1:])
    part = Part(0, 0, ())
    assert list(engine._shared_out(ray, [broken, sound], iter([part]))) == [part]
    assert "a worker could not be started (no memory)" in caplog.text


def test_a_part_that_costs_every_worker_is_given_up():
    losses = {}
    for _ in range(engine.LOSSES - 1):
        engine._count_loss(losses, Part(3, 9, ()), RuntimeError("died\nat length"))
    with pytest.raises(BadInput, match=r"5 workers were lost at part 3 \(died\)"):
        engine._count_loss(losses, Part(3, 9, ()), RuntimeError("died"))
