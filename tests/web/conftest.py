"""One server and one browser for all tests of the explorer; every page is watched for errors and foreign requests."""

import shutil
import threading
import time

import httpx
import pytest
import uvicorn
from transformers import BertConfig, BertForMaskedLM

CHROMIUM = shutil.which("chromium")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
QUIET += ("--disable-sync", "--no-first-run")
BUILTIN, TINY = "whence/builtin", "tiny"


@pytest.fixture(scope="session")
def models(builtin):
    """The built-in model and a random one of three layers with the same vocabulary."""
    import torch

    import whence

    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    tiny = BertForMaskedLM(BertConfig(vocab_size=len(builtin.tokenizer), **size)).eval()
    tiny.name_or_path = TINY
    return {BUILTIN: builtin, TINY: whence.load(tiny, builtin.tokenizer)}


class Running:
    """An explorer on a free port, in a thread."""

    def __init__(self, models, limits=None):
        from whence.web.app import create

        self.app = create(models, limits)
        self.service = self.app.service
        self._server = uvicorn.Server(uvicorn.Config(self.app, port=0, log_level="warning"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"

    def client(self):
        return httpx.Client(base_url=self.address, timeout=60)

    def close(self):
        self._server.should_exit = True
        self._thread.join(10)


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

    def start(limits):
        running.append(Running(models, limits))
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


@pytest.fixture
def open_page(browser, server, tmp_path):
    """Opens pages; after the test none may have logged an error or asked anything of another machine."""
    contexts, wrong = [], []

    def open_one(address=None, expect_errors=False, **options):
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "accept_downloads": True} | options
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        own = ("data:", "blob:", "file:", server.address)
        page.on("request", lambda request: request.url.startswith(own) or wrong.append(f"asks {request.url}"))
        page.on("pageerror", lambda error: wrong.append(f"error {error}"))
        if not expect_errors:
            page.on("console", lambda said: said.type in ("error", "warning") and wrong.append(f"console {said.text}"))
        page.goto(server.address if address is None else address)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert wrong == []
