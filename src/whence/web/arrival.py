"""A connection on which the head of a request has to arrive in time: uvicorn itself waits for ever."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class Hurried(H11Protocol):
    """Hangs up on a head that takes more than so many seconds; a body is timed where it is read."""

    def __init__(self, *arguments: Any, seconds: float, **options: Any):
        super().__init__(*arguments, **options)
        self.seconds = seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and not self._at_work():
            self._begin()
        super().data_received(data)
        if self._at_work():
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def _at_work(self) -> bool:
        """A head has arrived, and its answer is not finished."""
        return self.cycle is not None and not self.cycle.response_complete

    def _begin(self) -> None:
        self._deadline = self.loop.call_later(self.seconds, self.transport.close)

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
