"""What the explorer stands: fifty clients for a minute; in a browser, the first picture and two hundred tokens.

Every answer is compared with whence.measure; anything but 200, 202 and 429 is an error.
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import statistics
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import numpy as np
import psutil
import xarray

if TYPE_CHECKING:
    from playwright.sync_api import Page

MODEL = "whence/builtin"
SUBJECTS = ("The cat", "Nobody", "An old man", "The keys to the cabinet", "Paris", "Every student who failed")
ENDS = ("sat on the mat.", "is the capital of [MASK].", "was tired, and slept.", "went home", "knew why the bird sang.")
TEXTS = tuple(f"{subject} {end}" for subject in SUBJECTS for end in ENDS)
QUICK = ("attention", "mixing")
OTHERS = (QUICK, QUICK, ("norms", "effective"), ("value_rank",))
VIEWS = ("left", "whence", "flow", "maps", "heads", "prediction", "perturb", "compare")
TWENTY = "The old man who fed the hungry pigeons every morning was [MASK], and nobody knew why."
OFTEN = "The old man who fed the hungry pigeons every morning was gone, and nobody near the station knew where he went."
TWO_HUNDRED = " ".join([OFTEN] * 9)
FIRST, ALL, FRAME = 1.0, 5.0, 50.0  # limits: seconds, seconds, milliseconds

CHROMIUM = shutil.which("chromium")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
QUIET += ("--disable-sync", "--no-first-run")
TRIES = 3  # other work on the machine only ever adds
# From sending the form to the frame in which a picture with this token is seen, and on to the last of the views.
TYPED = """async ([token, views]) => {
  const frame = () => new Promise(requestAnimationFrame), began = performance.now();
  const until = async (true_) => { while (!true_()) await frame(); await frame(); };
  const seconds = () => (performance.now() - began) / 1000;
  document.querySelector('form.ask').requestSubmit();
  await until(() => [...document.querySelectorAll('.token')].some((chip) => chip.textContent === token));
  const first = seconds();
  await until(() => document.querySelector('.work').dataset.busy === 'false');
  for (const view of views) {
    document.getElementById(`tab-${view}`).click();
    await until(() => !document.getElementById(view).hidden && document.querySelector(`#${view} h2`)?.textContent);
  }
  return [first, seconds()];
}"""
# The longest time between two frames, in milliseconds, from now on.
WATCH = """() => {
  const watch = window.watch = { longest: 0, last: 0 };
  const tick = (now) => {
    if (watch.last) watch.longest = Math.max(watch.longest, now - watch.last);
    watch.last = now;
    if (window.watch === watch) requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}"""


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
    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=300) as http:
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
    from whence.plot import flattened

    expected = flattened(expected)
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
        [sys.executable, "-m", "whence", "serve", "--no-browse", "--no-token", "--port", "8799"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = process.stdout.readline().split()[2].rstrip("/")  # type: ignore[union-attr]
        in_browser(address)
        model = whence.load()
        names = sorted({name for group in OTHERS for name in group})
        fifty(address, process.pid, {text: whence.measure(model, text, names) for text in TEXTS})
    finally:
        process.terminate()
        process.wait(10)


def in_browser(address: str) -> None:
    """What a person waits for, measured by the page itself."""
    if CHROMIUM is None:
        row("in the browser", "not measured", "no chromium here (Debian: apt install chromium)")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(120_000)
        opened(page, address, "Warm.")
        times = [typed(page, number) for number in range(TRIES)]
        row("20 tokens: from Enter to the first picture", f"{min(first for first, _ in times):.2f} s", f"{FIRST:.0f} s")
        row("20 tokens: to all views visited and drawn", f"{min(whole for _, whole in times):.2f} s", f"{ALL:.0f} s")
        opened(page, address, TWO_HUNDRED)
        for view in ("left", "whence", "flow", "maps", "heads", "compare"):
            page.click(f"#tab-{view}")
            longest = min(longest_frame(page, view) for _ in range(TRIES))
            row(f"200 tokens, {view}: longest frame", f"{longest:.0f} ms", f"{FRAME:.0f} ms")
        browser.close()


def opened(page: Page, address: str, text: str) -> None:
    """Goes to a sentence and waits until all that is measured unasked is there."""
    page.goto(f"{address}/#text={quote(text)}")
    page.wait_for_selector(".panel:not([hidden]) h2")
    page.wait_for_selector(".work[data-busy=false]", state="attached")


def typed(page: Page, number: int) -> tuple[float, float]:
    """Seconds from Enter to the first picture, and to all views visited and drawn, for a sentence with this number."""
    page.fill("#text", f"{TWENTY[:-1]} {number}.")
    first, whole = page.evaluate(TYPED, [str(number), VIEWS])
    return first, whole


def longest_frame(page: Page, view: str) -> float:
    """Milliseconds of the longest frame while the mouse moves over the picture of a view and the page is scrolled."""
    picture = page.locator(f"#{view} .grid >> visible=true").first
    picture.scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    box = picture.bounding_box()
    assert box is not None
    page.evaluate(WATCH)
    for step in range(30):
        across, down = step / 30 * (box["width"] - 60), step / 30 * (box["height"] - 80)
        page.mouse.move(box["x"] + 50 + across, box["y"] + 20 + down)
    for turn in range(6):
        page.mouse.wheel(0, 60 if turn % 2 else -60)
        page.wait_for_timeout(20)
    page.wait_for_timeout(60)
    return float(page.evaluate("() => { const { longest } = window.watch; window.watch = null; return longest; }"))


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
