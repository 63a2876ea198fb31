"""Parts on a Ray cluster: actors that hold the model and measure one part at a time; lost actors are replaced.

A model that has a name is loaded by it where the actor runs, and its weights are compared with those of the run; one
that was given in memory travels by Ray's object store, once per node.

An actor that dies with its node loses the part it was at. The part goes to another actor; Ray restarts the actor when
it finds room. A part gives the same bytes wherever it is measured, so measuring it twice does no harm. When the driver
dies, Ray ends its actors.
"""

import logging
import os
import platform
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from whence.corpus.engines import Cluster
from whence.errors import BadInput, Unsupported, WhenceError
from whence.models.fingerprint import hashed
from whence.models.load import Model, load
from whence.models.locate import locate

if TYPE_CHECKING:
    from whence.corpus.parts import Part
    from whence.corpus.worker import Worker

# how often one part may be lost before it is held to be the cause
LOSSES = 5
# seconds for one worker to get ready while none is at work; Ray itself takes 60 to notice a process that died before it
# registered (worker_register_timeout_seconds), so two such deaths in a row are still tolerated
PATIENCE = 300
# what numbers depend on, and its name in a sentence
NAMED = {"weights_sha256": "weights", "dtype": "a dtype", "device": "a device"}
ALIKE = tuple(NAMED)
log = logging.getLogger("whence")


@dataclass(frozen=True)
class _Shipped:
    """What an actor is made of: the model, or what loads it, and what it has to be."""

    network: Any
    tokenizer: Any
    checks: tuple
    id: str
    revision: str | None
    origin: Mapping[str, Any] | None
    expected: Mapping[str, Any]
    plan: Any
    store: Any
    kind: Any

    def worker(self) -> "Worker":
        return self.kind(self._model(), self.plan, self.store)

    def _model(self) -> Model:
        if self.origin is None:
            return Model(self.network, self.tokenizer, locate(self.network), self.checks, self.id, self.revision)
        model = load(**_for_one(self.origin))
        own = hashed(model)
        if different := [name for name in ALIKE if own[name] != self.expected.get(name, own[name])]:
            name = different[0]
            raise BadInput(
                f"A Ray worker on {platform.node()} loaded {self.id!r} with {NAMED[name]} other than the run's"
                f" ({own[name]!s:.20}, not {self.expected[name]!s:.20}); have the same there, or send the model:"
                " give the run whence.load(model.model, model.tokenizer)."
            )
        return model


def _for_one(origin: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `load`, with a folder of its own for what one worker writes."""
    folder = origin.get("offload_folder")
    return {**origin} if folder is None else {**origin, "offload_folder": f"{folder}/{platform.node()}-{os.getpid()}"}


class _Actor:
    """A worker in its own process on some node of the cluster."""

    def __init__(self, shipped: list[Any]):
        self._shipped = shipped

    @cached_property
    def _worker(self) -> "Worker":
        import ray

        return ray.get(self._shipped[0]).worker()

    def ready(self) -> None:
        """Returns once the model is loaded: a call can say what is wrong with it, a constructor cannot."""
        _ = self._worker

    def do(self, part: "Part") -> dict[str, Any]:
        return self._worker.do(part)


def work(
    worker: "Worker",
    parts: Iterator["Part"],
    cluster: Cluster = Cluster(),  # noqa: B008  (frozen)
) -> Generator[dict[str, Any], None, None]:
    """The record of each part, in the order they are finished. At most one part per actor is in flight."""
    with _connected(cluster.address) as ray:
        first = next(parts, None)
        if first is None:
            return
        shipped = ray.put(_shipped(worker, cluster))  # held until the end: a restarted actor fetches it again
        actors = _actors(ray, worker, shipped, cluster.workers, cluster.gpus_per_worker)
        try:
            yield from _shared_out(ray, actors, chain([first], parts))
        finally:
            for actor in actors:
                ray.kill(actor)


@contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, started here or joined at the address, and shut down afterwards unless it was running before."""
    try:
        import ray
    except ImportError as error:
        raise Unsupported("The engine ray needs the package of that name: pip install 'whence[ray]'.") from error
    if ray.is_initialized():
        yield ray
        return
    # a worker finds its accelerators itself when it has none assigned (the default of coming Ray versions)
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    here: dict[str, Any] = {"include_dashboard": False} if address is None else {}
    try:
        ray.init(address=address, log_to_driver=False, **here)
    except Exception as error:  # a plain one where a node takes more than Ray's thirty seconds to start (node.py)
        where = "Ray does not start here" if address is None else f"There is no Ray cluster at {address!r}"
        raise BadInput(f"{where} ({_first(error)}).") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _shipped(worker: "Worker", cluster: Cluster) -> _Shipped:
    """With the weights only where there is no name to load them by."""
    model = worker.model
    named = model.origin is not None
    return _Shipped(
        network=None if named else model.model,
        tokenizer=None if named else model.tokenizer,
        checks=() if named else model.checks,
        id=model.id,
        revision=model.revision,
        origin=model.origin,
        expected=cluster.model or {},
        plan=worker.plan,
        store=worker.store,
        kind=type(worker),
    )


def _actors(ray: Any, worker: "Worker", shipped: Any, count: int | None, gpus: int | float | None = None) -> list[Any]:
    threads, resources = worker.plan.threads, ray.cluster_resources()
    gpus = int(worker.model.device.type == "cuda") if gpus is None else gpus
    room = int(resources.get("CPU", 0)) // threads
    if count is None and not room:
        raise BadInput(f"The Ray cluster has no {threads} CPUs for one worker; ask for fewer threads.")
    if gpus and gpus > resources.get("GPU", 0):
        raise BadInput(
            f"The Ray cluster has {resources.get('GPU', 0):g} GPUs, and one worker takes {gpus:g}; give fewer"
            " (gpus_per_worker, --gpus-per-worker)."
        )
    room = min(room, int(resources["GPU"] / gpus)) if gpus else room
    made = ray.remote(num_cpus=threads, num_gpus=gpus, max_restarts=-1)(_Actor)
    # in a list: for a bare reference Ray prints a warning at every run, though the driver holds the model to the end
    return [made.remote([shipped]) for _ in range(count or room)]


def _shared_out(ray: Any, actors: list[Any], parts: Iterator["Part"]) -> Iterator[dict[str, Any]]:
    """Gives a part to every actor that is ready, and the part of a lost actor to another."""
    again: deque[Part] = deque()
    losses: dict[int, int] = {}
    busy: dict[Any, tuple[Any, Part | None]] = {_ready(actor): (actor, None) for actor in actors}
    idle: list[Any] = []
    while True:
        while idle and (part := again.popleft() if again else next(parts, None)) is not None:
            actor = idle.pop()
            busy[actor.do.remote(part)] = (actor, part)
        if idle and all(part is None for _, part in busy.values()):
            return
        done = _ended(ray, busy)
        actor, part = busy.pop(done)
        try:
            record = ray.get(done)
        except ray.exceptions.RayActorError as error:
            if part is not None:
                again.append(part)
                _count_loss(losses, part, error)
                busy[_ready(actor)] = (actor, None)
            elif not busy and not idle:  # an actor that cannot even get ready never will
                raise BadInput(f"No Ray worker could be started ({_first(error)}).") from error
            else:
                log.warning("a worker could not be started (%s); the others go on without it", _first(error))
        except ray.exceptions.RayTaskError as error:
            raise _own(error) from error
        else:
            idle.append(actor)
            if part is not None:
                yield record


def _ended(ray: Any, busy: Mapping[Any, tuple[Any, "Part | None"]]) -> Any:
    """The call that ends first; a part may take any time, getting ready while none works only PATIENCE."""
    working = any(part is not None for _, part in busy.values())
    done, _ = ray.wait(list(busy), num_returns=1, timeout=None if working else PATIENCE)
    if not done:
        raise BadInput(
            f"No Ray worker was ready within {PATIENCE} seconds; look whether the cluster has nodes with free CPUs and"
            " memory for the model, then start the run again: it resumes where it stopped."
        )
    return done[0]


def _ready(actor: Any) -> Any:
    """A call that waits through restarts until the actor is ready."""
    return actor.ready.options(max_task_retries=-1).remote()


def _count_loss(losses: dict[int, int], part: "Part", error: Exception) -> None:
    losses[part.number] = losses.get(part.number, 0) + 1
    log.warning("a worker was lost at part %d, which is done again by another", part.number)
    if losses[part.number] >= LOSSES:
        raise BadInput(
            f"{LOSSES} workers were lost at part {part.number} ({_first(error)});"
            " give workers more memory, or make parts smaller."
        )


def _own(error: Any) -> BaseException:
    """The error as the worker raised it."""
    return error.cause if isinstance(error.cause, WhenceError) else error


def _first(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
