"""Who waits for which computation: one at a time, cheap ones first, each of them once however many ask for it."""

import contextlib
import heapq
import itertools
import logging
import secrets
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from whence.errors import BadInput, WhenceError
from whence.web.results import Gone

Progress = Callable[[int, int], None]
Work = Callable[[Progress], None]

REMEMBERED = 1000  # tickets of jobs that ended, so that a slow reader still learns how
log = logging.getLogger("whence")


class Busy(WhenceError):
    """Too many jobs wait already."""

    def __init__(self, waiting: int, seconds: int):
        super().__init__(f"{waiting} computations are waiting already; try again in {seconds} s.")
        self.seconds = seconds


class Cancelled(WhenceError):
    """Nobody waits for this job any more."""


class TimedOut(BadInput):
    """A job that took more time than one may take."""


@dataclass(eq=False)
class Job:
    """One computation and the tickets of those who wait for it."""

    key: str
    work: Work
    order: tuple[int, int]
    tickets: set[str] = field(default_factory=set)
    finished: Future[None] = field(default_factory=Future)
    done: int = 0
    of: int = 0
    running: bool = False


class Jobs:
    """A queue with one worker: the hooks that read a model must not be set twice at once."""

    def __init__(self, waiting: int, seconds: float):
        self.limit, self.seconds = waiting, seconds
        self._queue: list[tuple[tuple[int, int], Job]] = []
        self._alive: dict[str, Job] = {}
        self._tickets: OrderedDict[str, Job] = OrderedDict()
        self._numbers = itertools.count()
        self._turn = threading.Condition()
        self._usual = 1.0  # seconds a job takes, a moving average
        self._open = True
        self._worker = threading.Thread(target=self._run, name="whence-measure", daemon=True)
        self._worker.start()

    def submit(self, key: str, work: Work, cost: int = 0) -> str:
        """A ticket for the job with this key; it is the same job when one is under way."""
        ticket = secrets.token_urlsafe(12)
        with self._turn:
            job = self._alive.get(key) or self._added(key, work, cost)
            job.tickets.add(ticket)
            self._tickets[ticket] = job
            self._forget()
        return ticket

    def of(self, ticket: str) -> Job:
        with self._turn:
            if ticket not in self._tickets:
                raise Gone("There is no job with this ticket (any more).")
            return self._tickets[ticket]

    def ahead(self, job: Job) -> int:
        """How many others come before it."""
        with self._turn:
            return sum(other.order < job.order or other.running for other in self._alive.values() if other is not job)

    def give_up(self, ticket: str) -> None:
        """The holder of the ticket waits no longer; without any other, the job ends."""
        job = self.of(ticket)
        with self._turn:
            self._tickets.pop(ticket, None)
            job.tickets.discard(ticket)
            if job.tickets or job.finished.done():
                return
            self._leave(job)
            if not job.running:
                self._queue = [entry for entry in self._queue if entry[1] is not job]
                heapq.heapify(self._queue)
                job.finished.set_exception(_cancelled())

    def close(self) -> None:
        with self._turn:
            self._open = False
            for job in self._alive.values():
                job.tickets.clear()
                if not job.running and not job.finished.done():  # it may be closed twice
                    job.finished.set_exception(_cancelled())
            self._turn.notify_all()
        self._worker.join(timeout=10)

    def _added(self, key: str, work: Work, cost: int) -> Job:
        waiting = len(self._queue)
        if waiting >= self.limit:
            raise Busy(waiting, max(1, round(self._usual * waiting)))
        job = Job(key, work, (cost, next(self._numbers)))
        self._alive[key] = job
        heapq.heappush(self._queue, (job.order, job))
        self._turn.notify()
        return job

    def _forget(self) -> None:
        ended = [ticket for ticket, job in self._tickets.items() if job.finished.done()]
        for ticket in ended[: max(len(self._tickets) - REMEMBERED, 0)]:
            del self._tickets[ticket]

    # The worker

    def _run(self) -> None:
        while (job := self._next()) is not None:
            began = time.monotonic()
            outcome: BaseException | None = None
            try:
                job.work(self._watched(job, began))
            except BaseException as error:
                outcome = error
                _log(error)
                traceback.clear_frames(error.__traceback__)  # a ticket keeps the error, not the tensors it was met with
            self._end(job, outcome, time.monotonic() - began)

    def _next(self) -> Job | None:
        with self._turn:
            while not self._queue and self._open:
                self._turn.wait()
            if not self._open:
                return None
            job = heapq.heappop(self._queue)[1]
            job.running = True
            return job

    def _watched(self, job: Job, began: float) -> Progress:
        def progress(done: int, of: int) -> None:
            if not job.tickets:
                raise _cancelled()
            if time.monotonic() - began > self.seconds:
                raise TimedOut(f"The computation took longer than {self.seconds:.0f} s; shorten the text.")
            job.done, job.of = done, of

        return progress

    def _end(self, job: Job, outcome: BaseException | None, seconds: float) -> None:
        with self._turn:  # a cancel comes before all of this or after it
            job.running = False
            self._leave(job)
            self._usual += 0.2 * (seconds - self._usual)
            if outcome is None:
                job.finished.set_result(None)
            else:
                job.finished.set_exception(outcome)

    def _leave(self, job: Job) -> None:
        """The next to ask for this key begins a new job."""
        if self._alive.get(job.key) is job:
            del self._alive[job.key]


def _cancelled() -> Cancelled:
    return Cancelled("The job was cancelled.")


def _log(error: BaseException) -> None:
    """Shows what nobody foresaw; a log that cannot be written does not end the worker."""
    if not isinstance(error, WhenceError):
        with contextlib.suppress(Exception):
            log.error("A job of the explorer failed", exc_info=error)
