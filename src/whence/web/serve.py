"""How the explorer is started: models loaded, a port found, a page opened."""

import ipaddress
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from os import PathLike
from typing import Any

from whence.errors import BadInput, Unsupported
from whence.models.inputs import KINDS, TEXT
from whence.models.load import Model
from whence.web.limits import Limits

PORT = 8765
# An idle connection is closed by the client (httpx after 5 s): were both to do it at once, a request would be lost.
SETTINGS: dict[str, Any] = {
    "log_level": "warning",
    "server_header": False,
    "timeout_graceful_shutdown": 1,
    "timeout_keep_alive": 60,
}


def serve(
    models: Mapping[str, Model],
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    hosts: Iterable[str] = (),
    limits: Limits | None = None,
    token: bool = True,
    browse: bool = False,
    lenses: Iterable[str | PathLike[str]] = (),
    say: Callable[[str], None] = partial(print, flush=True),  # noqa: B008
) -> None:
    """Runs the explorer until it is interrupted. Without a port, the first free one from 8765 on.

    It answers only those who know the `token` in the address it prints, unless that is False. `lenses` are files or
    folders of fitted lenses.
    """
    try:
        import uvicorn

        from whence.web.app import create
    except ModuleNotFoundError as error:
        raise Unsupported(f"The explorer needs the package {error.name}: pip install 'whence[web]'.") from error
    for name, model in models.items():
        if model.reads != TEXT:
            raise Unsupported(
                f"The explorer takes texts, and {name} reads {KINDS[model.reads].name}s; `whence explain FILE --model"
                " MODEL` and `whence why FILE --model MODEL --open` make a page of one."
            )
    listening = _listen(host, port)
    secret = secrets.token_hex(24) if token else None
    app = create(models, limits, [in_address(name) for name in (host, *hosts)], secret, lenses)
    app.service.warm()
    address = f"http://{in_address(host)}:{listening.getsockname()[1]}/" + (f"?token={secret}" if secret else "")
    say(f"The explorer: {address}  (Ctrl+C ends it)")
    if browse:
        threading.Timer(0.3, webbrowser.open, [address]).start()
    uvicorn.Server(uvicorn.Config(app, **settings(app.service.limits))).run(sockets=[listening])


def settings(limits: Limits) -> dict[str, Any]:
    """How uvicorn is run."""
    from whence.web.arrival import Hurried

    return SETTINGS | {"http": partial(Hurried, seconds=limits.arrival)}


def in_address(host: str) -> str:
    """The host as an address and a Host header have it: IPv6 in brackets and as short as it can be."""
    try:
        number = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host
    return f"[{number.compressed}]" if number.version == 6 else host


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket on this port, or on the first free one of the usual ten."""
    bare = host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    for candidate in [port] if port is not None else range(PORT, PORT + 10):
        try:
            return socket.create_server((bare, candidate), family=family)
        except OSError as error:
            reason = error.strerror or str(error)
    ports = f"port {port}" if port is not None else f"ports {PORT} to {PORT + 9}"
    raise BadInput(f"The explorer cannot listen on {host}, {ports} ({reason}); give another with --port.")
