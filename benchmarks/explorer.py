"""What the explorer stands: fifty clients for a minute, the first picture, two hundred tokens.

Every answer is compared with whence.measure; anything but 200, 202 and 429 is an error.
"""

import asyncio
import json
import random
import statistics
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx
import numpy as np
import psutil
import xarray

MODEL = "whence/builtin"
SUBJECTS = ("The cat", "Nobody", "An old man", "The keys to the cabinet", "Paris", "Every student who failed")
ENDS = ("sat on the mat.", "is the capital of [MASK].", "was tired, and slept.", "went home", "knew why the bird sang.")
TEXTS = tuple(f"{subject} {end}" for subject in SUBJECTS for end in ENDS)
QUICK = ("attention", "mixing")
OTHERS = (QUICK, QUICK, ("norms", "effective"), ("rank",))
TWENTY = "The old man who fed the hungry pigeons every morning was [MASK], and nobody knew why."


@dataclass
class Tally:
    """What the clients saw."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    answers: int = 0
    wrong: list[str] = field(default_factory=list)


async def load(address: str, clients: int, seconds: float, expected: Mapping[str, xarray.Dataset]) -> Tally:
    """So many clients at once for so long, each asking for one sentence after the other and reading the result."""
    tally, until = Tally(), time.monotonic() + seconds
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=60) as http:
        await asyncio.gather(*(_client(http, seed, until, expected, tally) for seed in range(clients)))
    return tally


async def _client(
    http: httpx.AsyncClient, seed: int, until: float, expected: Mapping[str, xarray.Dataset], tally: Tally
) -> None:
    choose = random.Random(seed)
    while time.monotonic() < until:
        text, measures = choose.choice(list(expected)), choose.choice(OTHERS)
        cut = choose.random() < 0.5  # changes nothing but the key, so that less is there already
        began = time.perf_counter()
        asked = {"model": MODEL, "text": text, "measures": list(measures), "truncate": cut}
        answer = await http.post("/api/measure", json=asked)
        tally.statuses[answer.status_code] += 1
        if answer.status_code == 429:
            await asyncio.sleep(min(float(answer.headers["Retry-After"]), 1) * choose.random())
        elif answer.status_code in (200, 202):
            await _read(http, answer.json(), expected[text], tally)
            tally.seconds.append(time.perf_counter() - began)


async def _read(http: httpx.AsyncClient, found: dict[str, str], expected: xarray.Dataset, tally: Tally) -> None:
    if found["ticket"]:
        told = (await http.get(f"/api/jobs/{found['ticket']}/events")).text
        if "event: done" not in told:
            tally.wrong.append(told[-200:])
            return
    answer = await http.get(f"/api/results/{found['key']}")
    if answer.status_code != 200:  # 410 when the cache is small on purpose
        tally.statuses[answer.status_code] += 1
        return
    tally.answers += 1
    tally.wrong += differences(answer.content, expected)


def differences(body: bytes, expected: xarray.Dataset) -> list[str]:
    """Names of the arrays that are not those expected."""
    (length,) = struct.unpack("<I", body[:4])
    header, wrong = json.loads(body[4 : 4 + length]), []
    for name, row in header["variables"].items():
        values = np.frombuffer(body, "<f4", int(np.prod(row["shape"])), 4 + length + row["data_at"])
        if not np.allclose(values.reshape(row["shape"]), expected[name].values, atol=1e-5):
            wrong.append(f"{name} of {header['attrs']['text']!r}")
    tokens = [token["text"] for token in header["tokens"]]
    if tokens and tokens != expected["target_token"].values.tolist():
        wrong.append(f"tokens of {header['attrs']['text']!r}")
    return wrong


def main() -> None:
    import whence

    process = subprocess.Popen(
        [sys.executable, "-m", "whence", "serve", "--no-browse", "--port", "8799"], stdout=subprocess.PIPE, text=True
    )
    try:
        address = process.stdout.readline().split()[2].rstrip("/")  # type: ignore[union-attr]
        pictures(address)
        model = whence.load()
        names = sorted({name for group in OTHERS for name in group})
        fifty(address, process.pid, {text: whence.measure(model, text, names) for text in TEXTS})
    finally:
        process.terminate()
        process.wait(10)


def pictures(address: str) -> None:
    """From the question to the numbers of the first picture, and of all views."""
    firsts, wholes = [], []
    with httpx.Client(base_url=address, timeout=120) as http:
        for number in range(3):
            began = time.perf_counter()
            text = f"{TWENTY[:-1]} {number}."
            _measured(http, text, QUICK)
            firsts.append(time.perf_counter() - began)
            for measures in (("norms", "effective", "null", "rank"), ("head",), ("contribution",)):
                _measured(http, text, measures, **({"error": 0.05} if "contribution" in measures else {}))
            wholes.append(time.perf_counter() - began)
    row("first picture, 20 tokens", f"{statistics.median(firsts):.2f} s", "below 1 s")
    row("all views, 20 tokens", f"{statistics.median(wholes):.2f} s", "below 5 s")


def _measured(http: httpx.Client, text: str, measures: tuple[str, ...], **more: float) -> None:
    found = http.post("/api/measure", json={"model": MODEL, "text": text, "measures": list(measures), **more}).json()
    if found["ticket"]:
        http.get(f"/api/jobs/{found['ticket']}/events")
    http.get(f"/api/results/{found['key']}").raise_for_status()


def fifty(address: str, pid: int, expected: Mapping[str, xarray.Dataset], seconds: float = 60) -> None:
    server = psutil.Process(pid)
    asyncio.run(load(address, 50, 10, expected))  # all that is made once
    before = server.memory_info().rss
    tally = asyncio.run(load(address, 50, seconds, expected))
    grown = (server.memory_info().rss - before) / 1e6
    allowed = {200, 202, 410, 429}
    row("answers checked, 50 clients, one minute", f"{tally.answers:,}")
    row("wrong answers", str(len(tally.wrong)), "0")
    row("statuses", " ".join(f"{status}:{count}" for status, count in sorted(tally.statuses.items())), "no 5xx")
    row("other statuses", str(sum(count for status, count in tally.statuses.items() if status not in allowed)), "0")
    row("time to an answer, median", f"{statistics.median(tally.seconds):.2f} s")
    row("memory more than after the first ten seconds", f"{grown:.0f} MB", "below 50")


def row(name: str, found: str, limit: object = "") -> None:
    print(f"{name:<52} {found:>26}   {limit}", flush=True)


if __name__ == "__main__":
    main()
