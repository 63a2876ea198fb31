"""Who is let in: the token, IPv6, two headers of a kind, and requests that never arrive."""

import re
import socket

import pytest

from tests.web.conftest import SOON, TINY, Running
from whence.web import serve as serving
from whence.web.limits import Limits

TOKEN = "a secret of the test"
PATHS = ("/", "/page.css", "/modules/live/live.js", "/api/about", "/openapi.json", "/nothing")


@pytest.fixture(scope="module")
def locked(models):
    running = Running(models, Limits(arrival=0.3), token=TOKEN)
    yield running
    running.close()


@pytest.fixture
def stranger(locked):
    with locked.client() as found:
        yield found


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("given", [{}, {"token": ""}, {"token": TOKEN[:-1]}, {"token": "\u00e9"}])
def test_without_the_token_nothing_is_answered(stranger, path, given):
    answer = stranger.get(path, params=given)
    assert answer.status_code == 403 and "/?token=" in answer.json()["error"]
    assert "set-cookie" not in answer.headers


def test_with_the_token_once_it_is_a_cookie(stranger, locked):
    first = stranger.get("/", params={"token": TOKEN})
    kept = first.headers["set-cookie"]
    assert first.status_code == 200 and "HttpOnly" in kept and "SameSite=Strict" in kept
    port = locked.address.rpartition(":")[2]
    assert kept.startswith(f"whence-{port}=")
    cookie = {"Cookie": f'whence-{port}="{TOKEN}"'}
    assert stranger.get("/api/about", headers=cookie).status_code == 200
    assert stranger.get("/api/about", headers={"Cookie": f"whence-{port}=wrong"}).status_code == 403
    assert stranger.get("/api/about", headers={"Cookie": f"whence-1={TOKEN}"}).status_code == 403


def test_the_token_opens_no_door_to_other_sites(stranger):
    answer = stranger.get("/", params={"token": TOKEN}, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403 and "another site" in answer.json()["error"]


@pytest.mark.parametrize(
    ("first", "second"),
    [("http://evil.example", None), (None, "http://evil.example"), ("http://evil.example", "http://evil.example")],
)
def test_of_two_origins_both_count(client, server, first, second):
    origins = [("Origin", value or server.address) for value in (first, second)]
    assert client.get("/api/about", headers=origins).status_code == 403
    assert client.get("/api/about", headers=[("Origin", server.address)] * 2).status_code == 200


def test_of_two_hosts_both_count(server):
    for hosts in (("127.0.0.1", "evil.example"), ("evil.example", "127.0.0.1")):
        lines = "".join(f"Host: {host}\r\n" for host in hosts)
        assert spoken(server, f"GET /api/about HTTP/1.1\r\n{lines}\r\n")[9:12] in ("400", "403")


def spoken(server, *texts):
    """What is answered until the server hangs up; each text is sent when there is an answer to the one before."""
    port = int(server.address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=SOON) as connection:
        answer = b""
        for text in texts:
            connection.sendall(text.encode())
            answer += connection.recv(4096)
        while part := connection.recv(4096):
            answer += part
    return answer.decode()


@pytest.mark.parametrize("begun", ["", "GET / HT", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
def test_a_head_that_never_ends_is_hung_up_on(locked, begun):
    assert spoken(locked, begun) == ""


def test_a_body_that_never_ends_is_refused(started):
    head = "POST /api/measure HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"
    answer = spoken(started(Limits(arrival=0.3)), head)
    assert answer.startswith("HTTP/1.1 408") and "within 0.3 s" in answer


def test_the_second_head_of_a_connection_has_its_time_too(locked):
    assert spoken(locked, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "GET /slow").count("HTTP/1.1 403") == 1


def test_an_explorer_on_ipv6(started):
    try:
        running = started(host="::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    assert running.address.startswith("http://[::1]:")
    with running.client() as client:
        assert client.get("/api/about", headers={"Origin": running.address}).status_code == 200


@pytest.mark.parametrize(
    ("host", "written"),
    [("::1", "[::1]"), ("[::1]", "[::1]"), ("0:0:0:0:0:0:0:1", "[::1]"), ("127.0.0.1", "127.0.0.1"), ("box", "box")],
)
def test_hosts_as_addresses_have_them(host, written):
    assert serving.in_address(host) == written


class Run:
    """What `serve` would have run: whoever asks is answered by `app`."""

    def __init__(self, config):
        Run.app = config.app

    def run(self, sockets):
        Run.family = sockets[0].family
        sockets[0].close()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_address_that_is_printed(models, monkeypatch, host):
    monkeypatch.setattr("uvicorn.Server", Run)
    said = []
    for token in (True, True, False):
        serving.serve({TINY: models[TINY]}, host=host, port=0, token=token, say=said.append)
        Run.app.service.jobs.close()
    start = re.escape(f"http://{serving.in_address(host)}:")
    first, second = (re.search(rf"{start}\d+/\?token=([0-9a-f]{{48}})  ", line).group(1) for line in said[:2])
    assert first != second
    assert re.search(rf"{start}\d+/  ", said[2])
    assert Run.family == (socket.AF_INET6 if ":" in host else socket.AF_INET)


def test_the_page_keeps_the_token_out_of_its_address(browser, locked):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{locked.address}/?token={TOKEN}#model=tiny&text=A%20cat.")
    page.wait_for_selector(".token:text-is('cat')")
    assert "token=a" not in page.url and "text=A" in page.url
    page.reload()
    page.wait_for_selector(".token:text-is('cat')")
    context.close()


def test_cells_that_a_spreadsheet_would_run(visit):
    page = visit("left", model=TINY, text="A cat.")
    rows = [["=1+1", "+1", "-1", "@a", "\tb", '\r"c"', "a=b", -1.5, 2]]
    made = "async (rows) => (await import('/modules/core/leave.js')).csv({ header: ['=a'], rows }).text()"
    expected = "'=a\r\n'=1+1,'+1,'-1,'@a,'\tb,\"'\r\"\"c\"\"\",a=b,-1.5,2\r\n"
    assert page.evaluate(made, rows) == expected
