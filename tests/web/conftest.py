"""One server and one browser for all tests of the explorer; every page is watched for errors and foreign requests."""

import threading
import time
from urllib.parse import quote

import httpx
import pytest
import uvicorn
from benchmarks.explorer import CHROMIUM, QUIET
from transformers import BertConfig, BertForMaskedLM

LOUD = ("error", "warning")
BUILTIN, TINY = "whence/builtin", "tiny"
SOON = 300.0  # seconds that are never waited for, unless something is broken


def wait_until(true):
    until = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < until
        time.sleep(0.002)


@pytest.fixture(scope="session")
def models():
    """The built-in model and a random one of three layers with the same vocabulary.

    Read anew: the server works in a thread of this process, and other tests use theirs at the same time.
    """
    import torch

    import whence

    builtin = whence.load()
    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    tiny = BertForMaskedLM(BertConfig(vocab_size=len(builtin.tokenizer), **size)).eval()
    tiny.name_or_path = TINY
    return {BUILTIN: builtin, TINY: whence.load(tiny, builtin.tokenizer)}


class Running:
    """An explorer on a free port, in a thread."""

    def __init__(self, models, limits=None, token=None, host="127.0.0.1", lenses=()):
        from whence.web.app import create
        from whence.web.serve import in_address, settings

        self.app = create(models, limits, token=token, lenses=lenses)
        self.service = self.app.service
        self._server = uvicorn.Server(uvicorn.Config(self.app, host=host, port=0, **settings(self.app.service.limits)))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.address = f"http://{in_address(host)}:{port}"

    def client(self):
        return httpx.Client(base_url=self.address, timeout=SOON)

    def close(self):
        self._server.should_exit = True
        self._thread.join(SOON)


@pytest.fixture(scope="session")
def server(models):
    running = Running(models)
    running.service.warm()
    yield running
    running.close()


@pytest.fixture
def client(server):
    with server.client() as found:
        yield found


@pytest.fixture
def started(models):
    """Starts servers with limits of their own."""
    running = []

    def start(limits=None, **options):
        running.append(Running(models, limits, **options))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture(scope="session")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine (Debian: apt install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield opened
        opened.close()


class Watched:
    """Opens pages and notes what none of them may do: log an error, ask anything of another machine."""

    def __init__(self, browser, server):
        self.browser, self.server, self.contexts, self.wrong = browser, server, [], []

    def __call__(self, address=None, expect_errors=False, **options):
        usual = {"viewport": {"width": 1280, "height": 900}, "accept_downloads": True}
        self.contexts.append(self.browser.new_context(**usual | options))
        page = self.contexts[-1].new_page()
        page.set_default_timeout(1000 * SOON)
        own = ("data:", "blob:", "file:", self.server.address)
        page.on("request", lambda asked: asked.url.startswith(own) or self.wrong.append(f"asks {asked.url}"))
        page.on("pageerror", lambda error: self.wrong.append(f"error {error}"))
        page.on("dialog", lambda dialog: self.wrong.append(f"dialog {dialog.message}"))
        if not expect_errors:
            page.on("console", lambda said: said.type in LOUD and self.wrong.append(f"console {said.text}"))
        page.goto(self.server.address if address is None else address)
        return page

    def check(self):
        found, self.wrong = self.wrong, []
        assert found == []

    def close(self):
        for context in self.contexts:
            context.close()


@pytest.fixture
def open_page(browser, server):
    """Opens pages of their own; afterwards nothing may have gone wrong in any."""
    watched = Watched(browser, server)
    yield watched
    watched.close()
    watched.check()


@pytest.fixture(scope="session")
def shared(browser, server):
    watched = Watched(browser, server)
    yield watched, watched()
    watched.close()


@pytest.fixture
def visit(shared, server):
    """Goes somewhere in a page that all tests share, by its address alone."""
    watched, page = shared

    def go(view, **state):
        written(page)  # the last test's choices
        page.goto(link(server, view=view, **state))
        page.wait_for_selector(f"#{view}:not([hidden]) h2")
        painted(page)
        return settled(page)

    yield go
    watched.check()


def link(server, **state):
    return f"{server.address}/#" + "&".join(f"{name}={quote(str(value))}" for name, value in state.items())


def written(page):
    """What was chosen is in the address: it is written 120 ms later, by a timer that ends before this one."""
    page.evaluate("() => new Promise((done) => setTimeout(done, 130))")


def painted(page):
    """What was asked for is drawn: the second frame from now begins when the first is on the screen."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def settled(page):
    """All stages are there."""
    page.wait_for_selector(".panel:not([hidden]) h2:visible")
    page.wait_for_selector(".work[data-busy=false]", state="attached")
    return page
