"""The queue: order, joining, giving up, limits, failures."""

import itertools
import logging
import sys
import threading
import time
import weakref

import pytest

from tests.web.conftest import SOON, wait_until
from whence.errors import BadInput
from whence.web.jobs import Busy, Cancelled, Jobs, TimedOut
from whence.web.results import Gone


@pytest.fixture
def jobs():
    made = Jobs(waiting=3, seconds=60.0)
    yield made
    made.close()


class Gate:
    """Work that waits until it is let through, and notes that it ran."""

    def __init__(self, name, ran, open_=False):
        self.name, self.ran, self.go, self.looks = name, ran, threading.Event(), 0
        if open_:
            self.go.set()

    def __call__(self, progress):
        while not self.go.wait(0.005):
            progress(1, 10)
            self.looks += 1
        progress(10, 10)
        self.ran.append(self.name)


def test_cheap_jobs_go_first(jobs):
    ran = []
    first = Gate("first", ran)
    ticket = jobs.submit("first", first)
    wait_until(lambda: jobs.of(ticket).running)
    others = [jobs.submit(name, Gate(name, ran, True), cost) for name, cost in (("slow", 1), ("b", 0), ("c", 0))]
    assert [jobs.ahead(jobs.of(other)) for other in others] == [3, 1, 2]
    first.go.set()
    wait_until(lambda: len(ran) == 4)
    assert ran == ["first", "b", "c", "slow"]


def test_the_same_key_is_one_job_until_the_last_gives_up(jobs):
    ran, gate = [], Gate("x", [])
    one, two = jobs.submit("x", gate), jobs.submit("x", Gate("never", ran, True))
    job = jobs.of(one)
    assert jobs.of(two) is job
    wait_until(lambda: job.running)
    jobs.give_up(one)
    looked = gate.looks
    wait_until(lambda: gate.looks > looked + 1)  # it looked again whether anybody waits
    assert not job.finished.done()
    jobs.give_up(two)
    with pytest.raises(Cancelled):
        job.finished.result(SOON)
    with pytest.raises(Gone):
        jobs.of(two)
    assert ran == []


def test_a_waiting_job_that_is_given_up_never_runs(jobs):
    ran = []
    first = Gate("first", ran)
    jobs.submit("first", first)
    ticket = jobs.submit("second", Gate("second", ran, True))
    job = jobs.of(ticket)
    jobs.give_up(ticket)
    assert isinstance(job.finished.exception(SOON), Cancelled)
    first.go.set()
    last = jobs.of(jobs.submit("third", Gate("third", ran, True)))
    last.finished.result(SOON)
    assert ran == ["first", "third"]


class Yielding(threading.Condition):
    """A lock that lets another thread go first whenever it is left, so that what is done beside it shows."""

    def __exit__(self, *error):
        super().__exit__(*error)
        time.sleep(0)


@pytest.mark.parametrize(
    ("lock", "times"),
    [
        (Yielding, 1_500),
        (threading.Condition, 10_000),
        pytest.param(threading.Condition, 100_000, marks=pytest.mark.whole),
    ],
)
def test_a_cancel_may_meet_the_end_of_its_job(monkeypatch, lock, times):
    monkeypatch.setattr(threading, "Condition", lock)
    jobs = Jobs(waiting=2, seconds=SOON)
    monkeypatch.undo()
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        kept = [race(jobs, number % 2 + 1) for number in range(times * 2 // 3 + 1)]
    finally:
        sys.setswitchinterval(usual)
    outcomes = [job.finished.exception(SOON) for job in itertools.chain.from_iterable(kept)]
    assert len(outcomes) >= times and {type(outcome) for outcome in outcomes} <= {type(None), Cancelled}
    jobs.of(jobs.submit("one more", Gate("", [], True))).finished.result(SOON)
    jobs.close()


def race(jobs, count):
    """As many jobs that do nothing, each given up while the worker is at one of them."""
    tickets = [jobs.submit(str(number), lambda progress: None) for number in range(count)]
    found = [jobs.of(ticket) for ticket in tickets]
    for ticket in tickets:
        jobs.give_up(ticket)
    return found


def test_jobs_that_wait_when_it_closes_are_cancelled(jobs):
    gate = Gate("first", [])
    found = [jobs.of(jobs.submit(name, gate)) for name in ("first", "second")]
    wait_until(lambda: found[0].running)
    jobs.close()
    assert all(isinstance(job.finished.exception(SOON), Cancelled) for job in found)
    jobs.close()  # a second time changes nothing


def test_beyond_the_limit_it_says_when(jobs):
    gate = Gate("first", [])
    running = jobs.of(jobs.submit("first", gate))
    wait_until(lambda: running.running)
    for number in range(3):
        jobs.submit(f"waiting {number}", Gate("", [], True))
    with pytest.raises(Busy, match="3 computations are waiting") as refused:
        jobs.submit("one more", Gate("", []))
    assert refused.value.seconds >= 1
    jobs.submit("waiting 0", Gate("", []))  # joining needs no room
    gate.go.set()


def test_what_a_job_raises_reaches_the_ticket_and_the_worker_goes_on(jobs, caplog):
    def wrong(progress):
        raise BadInput("No.")

    def broken(progress):
        raise ZeroDivisionError

    for work, kind in ((wrong, BadInput), (broken, ZeroDivisionError)):
        assert isinstance(jobs.of(jobs.submit(str(kind), work)).finished.exception(SOON), kind)
    assert "A job of the explorer failed" in caplog.text and "ZeroDivisionError" in caplog.text
    jobs.of(jobs.submit("fine", Gate("", [], True))).finished.result(SOON)


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), MemoryError()], ids=repr)
def test_the_worker_outlives_whatever_is_raised(jobs, error, monkeypatch):
    def raises(*given, **options):
        raise error

    monkeypatch.setattr(logging.Logger, "error", lambda *given, **options: [].pop())  # the log is broken as well
    assert jobs.of(jobs.submit("broken", raises)).finished.exception(SOON) is error
    jobs.of(jobs.submit("fine", Gate("", [], True))).finished.result(SOON)


def test_a_ticket_does_not_keep_what_a_failed_job_held(jobs):
    held = []

    def fails(progress):
        large = Gate("large", [])
        held.append(weakref.ref(large))
        raise BadInput("No.")

    ticket = jobs.submit("fails", fails)
    assert str(jobs.of(ticket).finished.exception(SOON)) == "No."
    assert held[0]() is None


def test_a_job_has_its_time():
    jobs = Jobs(waiting=1, seconds=0.05)
    job = jobs.of(jobs.submit("forever", Gate("", [])))
    with pytest.raises(TimedOut, match="longer than"):
        job.finished.result(SOON)
    jobs.close()


def test_tickets_are_forgotten_in_the_end(jobs, monkeypatch):
    monkeypatch.setattr("whence.web.jobs.REMEMBERED", 5)
    tickets = []
    for number in range(12):
        tickets.append(jobs.submit(f"{number}", Gate("", [], True)))
        jobs.of(tickets[-1]).finished.result(SOON)
    assert len(jobs._tickets) <= 6
    with pytest.raises(Gone):
        jobs.of(tickets[0])
    assert jobs.of(tickets[-1]).finished.done()
