"""The queue: order, joining, giving up, limits, failures."""

import threading
import time

import pytest

from whence.errors import BadInput
from whence.web.jobs import Busy, Cancelled, Jobs, TooLong
from whence.web.results import Gone


@pytest.fixture
def jobs():
    made = Jobs(waiting=3, seconds=60.0)
    yield made
    made.close()


class Gate:
    """Work that waits until it is let through, and notes that it ran."""

    def __init__(self, name, ran, open_=False):
        self.name, self.ran, self.go = name, ran, threading.Event()
        if open_:
            self.go.set()

    def __call__(self, progress):
        while not self.go.wait(0.005):
            progress(1, 10)
        progress(10, 10)
        self.ran.append(self.name)


def wait_until(true, seconds=5.0):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.002)


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
    time.sleep(0.05)
    assert not job.finished.done()
    jobs.give_up(two)
    with pytest.raises(Cancelled):
        job.finished.result(5)
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
    assert isinstance(job.finished.exception(1), Cancelled)
    first.go.set()
    last = jobs.of(jobs.submit("third", Gate("third", ran, True)))
    last.finished.result(5)
    assert ran == ["first", "third"]


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
        assert isinstance(jobs.of(jobs.submit(str(kind), work)).finished.exception(5), kind)
    assert "failed" in caplog.text
    jobs.of(jobs.submit("fine", Gate("", [], True))).finished.result(5)


def test_a_job_has_its_time():
    jobs = Jobs(waiting=1, seconds=0.05)
    job = jobs.of(jobs.submit("forever", Gate("", [])))
    with pytest.raises(TooLong, match="longer than"):
        job.finished.result(5)
    jobs.close()


def test_tickets_are_forgotten_in_the_end(jobs, monkeypatch):
    monkeypatch.setattr("whence.web.jobs.REMEMBERED", 5)
    tickets = []
    for number in range(12):
        tickets.append(jobs.submit(f"{number}", Gate("", [], True)))
        jobs.of(tickets[-1]).finished.result(5)
    assert len(jobs._tickets) <= 6
    with pytest.raises(Gone):
        jobs.of(tickets[0])
    assert jobs.of(tickets[-1]).finished.done()
