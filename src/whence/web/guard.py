"""Who may ask and how much: Host, Origin, token and size of every request, and what an answer forbids the browser."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse

from whence.web.limits import Limits

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OTHER_SITES = ("cross-site", "same-site")  # the same site, on another port, is another program
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
NO_TOKEN = (
    "The explorer asks for its token: open the address that it printed when it was started, which ends in /?token=…,"
    " or start it with --no-token."
)
POLICY = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """Refuses foreign hosts (DNS rebinding), foreign origins (other pages), large bodies and slow ones.

    With a token, it also refuses requests without it.
    """

    def __init__(self, app: App, hosts: Iterable[str], limits: Limits, token: str | None = None):
        self.app, self.hosts, self.limits, self.token = app, frozenset(hosts), limits, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        request = Request(scope)
        answer = _policed(send, self._cookie(request))
        content = self._refusal(request.headers) or self._unknown(request) or await self._arrived(receive)
        if isinstance(content, JSONResponse):
            return await content(scope, receive, answer)
        return await self.app(scope, _replayed(content, receive), answer)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        hosts, origins = headers.getlist("host") or [""], headers.getlist("origin")  # of two, both count
        if any(_name(host) not in self.hosts for host in hosts):
            return _refused(403, "This server answers only to the names it was started for; open the address it shows.")
        if any(origin != f"http://{host}" for origin in origins for host in hosts) or _foreign(headers):
            return _refused(403, "The request comes from another site; open the explorer's own page.")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return _refused(400, "The Content-Length is not a number.")
        return self._too_large(f"{int(length):,}") if int(length) > self.limits.body else None

    def _unknown(self, request: Request) -> JSONResponse | None:
        if self.token is None or self._known(request.cookies.get(_cookie_name(request))) or self._named(request):
            return None
        return _refused(403, NO_TOKEN)

    def _known(self, token: str | None) -> bool:
        """Compared in constant time: how long a refusal takes tells nothing about the token."""
        return secrets.compare_digest((token or "").encode(), (self.token or "").encode())

    def _named(self, request: Request) -> bool:
        return self._known(request.query_params.get("token"))

    def _cookie(self, request: Request) -> str | None:
        """Whoever came with the token in the address keeps it as a cookie that no script and no other site can use."""
        if self.token is None or not self._named(request):
            return None
        return f"{_cookie_name(request)}={self.token}; HttpOnly; SameSite=Strict; Path=/"

    async def _arrived(self, receive: Receive) -> bytes | JSONResponse:
        try:
            async with asyncio.timeout(self.limits.arrival):
                content = await self._content(receive)
        except TimeoutError:
            return _refused(408, f"The request did not arrive within {self.limits.arrival:g} s; send it again.")
        return self._too_large("more") if content is None else content

    async def _content(self, receive: Receive) -> bytes | None:
        """The whole body, or None when it is too large."""
        content, unfinished = b"", True
        while unfinished:
            message = await receive()
            if message["type"] != "http.request":
                return content
            content += message.get("body", b"")
            if len(content) > self.limits.body:
                return None
            unfinished = message.get("more_body", False)
        return content

    def _too_large(self, length: str) -> JSONResponse:
        most = f"{self.limits.body:,}"
        return _refused(413, f"The request has {length} bytes and at most {most} are taken; shorten the text.")


def _foreign(headers: Headers) -> bool:
    """Another site's page asks for something to use; following a link from there to here is not that."""
    foreign = any(site in OTHER_SITES for site in headers.getlist("sec-fetch-site"))
    return foreign and set(headers.getlist("sec-fetch-dest")) != {"document"}


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    return host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host


def _cookie_name(request: Request) -> str:
    """One for every port: a browser shows a cookie to every port of a machine, and two explorers have two tokens."""
    server = request.scope.get("server")
    return f"whence-{server[1] if server else 0}"


def _refused(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers={"Connection": "close"} if status in (408, 413) else None)


def _replayed(content: bytes, receive: Receive) -> Receive:
    """Hands out the body that was read, then listens for the end of the connection."""
    messages = [{"type": "http.request", "body": content, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


def _policed(send: Send, cookie: str | None) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in POLICY.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
            if cookie is not None:
                headers.append("Set-Cookie", cookie)
        await send(message)

    return with_headers
