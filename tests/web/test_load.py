"""Fifty clients at once, for a few seconds: right answers or 429, and the memory comes to rest."""

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest
from benchmarks.explorer import OTHERS, TEXTS, differences, load

import whence
from tests.web.conftest import BUILTIN
from whence.web.limits import Limits
from whence.web.wire import packed


@pytest.fixture(scope="module")
def expected(models):
    names = sorted({name for group in OTHERS for name in group})
    return {text: whence.measure(models[BUILTIN], text, names) for text in TEXTS[::5]}


def test_the_check_can_fail(expected):
    one, other = list(expected.values())[:2]
    assert differences(packed(one), one) == []
    assert differences(packed(one.assign(mixing=one["mixing"] + 0.01)), one)
    assert any("tokens" in found for found in differences(packed(one[["value_rank"]].assign_coords(one.coords)), other))


def asked(running, seconds, expected):
    """In a thread of its own: Playwright keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(load(running.address, 50, seconds, expected))).result()


@pytest.mark.slow
def test_fifty_clients(started, expected):
    running = started(Limits(waiting=8, kept=2**20))  # little is kept, so that most is measured again
    asked(running, 1.5, expected)
    gc.collect()
    process = psutil.Process()
    before = process.memory_info().rss
    tally = asked(running, 5, expected)
    gc.collect()
    assert tally.wrong == []
    assert set(tally.statuses) <= {200, 202, 410, 429}
    assert tally.answers > 20
    assert running.service.results.bytes <= 2**21
    assert (process.memory_info().rss - before) / 1e6 < 60
