"""Who may ask and how much: Host, Origin and size of every request, and what every answer forbids the browser."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OTHER_SITES = ("cross-site", "same-site")  # the same site, on another port, is another program
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
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
    """Refuses foreign hosts (a name that was made to point here), foreign origins (other pages) and large bodies."""

    def __init__(self, app: App, hosts: Iterable[str], body: int):
        self.app, self.hosts, self.body = app, frozenset(hosts), body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        answer = _policed(send)
        refusal = self._refusal(Headers(scope=scope))
        content = b"" if refusal else await self._content(receive)
        if refusal is None and content is None:
            refusal = self._too_large("more")
        if refusal is not None:
            return await refusal(scope, receive, answer)
        return await self.app(scope, _replayed(content or b"", receive), answer)

    def _refusal(self, headers: Headers) -> JSONResponse | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if _name(host) not in self.hosts:
            return _refused(403, "This server answers only to the names it was started for; open the address it shows.")
        if (origin is not None and origin != f"http://{host}") or _foreign(headers):
            return _refused(403, "The request comes from another site; open the explorer's own page.")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            return _refused(400, "The Content-Length is not a number.")
        return self._too_large(f"{int(length):,}") if int(length) > self.body else None

    async def _content(self, receive: Receive) -> bytes | None:
        """The whole body, or nothing when there is more than may be."""
        content, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return content
            content += message.get("body", b"")
            if len(content) > self.body:
                return None
            more = message.get("more_body", False)
        return content

    def _too_large(self, length: str) -> JSONResponse:
        return _refused(413, f"The request has {length} bytes and at most {self.body:,} are taken; shorten the text.")


def _foreign(headers: Headers) -> bool:
    """Another site's page asks for something to use; following a link from there to here is not that."""
    return headers.get("sec-fetch-site") in OTHER_SITES and headers.get("sec-fetch-dest") != "document"


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    return host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host


def _refused(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers={"Connection": "close"} if status == 413 else None)


def _replayed(content: bytes, receive: Receive) -> Receive:
    """Hands out the body that was read, then listens for the end of the connection."""
    messages = [{"type": "http.request", "body": content, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


def _policed(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in POLICY.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return with_headers
