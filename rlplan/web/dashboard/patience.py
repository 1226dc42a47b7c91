"""A connection that is not waited for without end: one that sends no request, or takes no answer, is dropped."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import h11
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from rlplan.web.dashboard.guard import CARRIED, with_headers
from rlplan.web.dashboard.problems import RETRY_SECONDS

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

MOST_CONNECTIONS = 1000
REQUEST_SECONDS = 15.0  # from the connection, or a request's first byte, to the request's end
STUCK_SECONDS = 15.0  # in which the other end must take a part of what it is being sent


class PatientProtocol(H11Protocol):
    """uvicorn's connection, with limits to how slow its other end may be."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._request: asyncio.TimerHandle | None = self.loop.call_later(REQUEST_SECONDS, self._drop)
        self._answer: asyncio.TimerHandle | None = None
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; one connection too many is told so."""
        super().connection_made(cast(asyncio.Transport, transport))
        if len(self.connections) > MOST_CONNECTIONS:
            self.app = _crowded

    def data_received(self, data: bytes) -> None:
        """Take what has come; a request that has only begun has its time."""
        try:
            super().data_received(data)
        except h11.LocalProtocolError:
            self._drop()  # nonsense in the rest of a request that has been answered: nothing can be said any more
            return
        if not self._is_within_request():
            _stop(self._request)
            self._request = None
        elif self._request is None:
            self._request = self.loop.call_later(REQUEST_SECONDS, self._drop)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP; while another answer is on its way, nothing can be said."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self._drop()
            return
        body = f"{msg}\n".encode()
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
        answer = h11.Response(status_code=400, reason=b"Bad Request", headers=[*headers, *CARRIED])
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def pause_writing(self) -> None:
        """Watch what the other end leaves untaken."""
        super().pause_writing()
        _stop(self._answer)
        self._watch()

    def resume_writing(self) -> None:
        """The other end has taken it."""
        super().resume_writing()
        _stop(self._answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks."""
        super().connection_lost(exc)
        _stop(self._request)
        _stop(self._answer)

    def _is_within_request(self) -> bool:
        if self.conn.their_state is h11.IDLE:
            return bool(self.conn.trailing_data[0])
        return self.conn.their_state is h11.SEND_BODY

    def _watch(self) -> None:
        self._left = self.transport.get_write_buffer_size()
        self._answer = self.loop.call_later(STUCK_SECONDS, self._check)

    def _check(self) -> None:
        if self.transport.get_write_buffer_size() < self._left:
            self._watch()
        else:
            self._drop()

    def _drop(self) -> None:
        # Not closed: that would wait until the other end has taken what is left.
        self.transport.abort()


def _stop(clock: asyncio.TimerHandle | None) -> None:
    if clock is not None:
        clock.cancel()


async def _crowded(scope: "Scope", receive: "Receive", send: "Send") -> None:
    headers = {"connection": "close", "retry-after": str(RETRY_SECONDS)}
    answer = PlainTextResponse("Too many look at once: try again.\n", 503, headers=headers)
    await answer(scope, receive, with_headers(send))
