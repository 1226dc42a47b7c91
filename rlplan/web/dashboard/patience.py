"""A connection that is not waited for without end: one that sends no request, or takes no answer, is dropped."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 15.0  # from the connection, or a request's first byte, to the request's end
STUCK_SECONDS = 15.0  # in which the other end must take a part of what it is being sent


class PatientProtocol(H11Protocol):
    """uvicorn's connection, with limits to how slow its other end may be."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._request: asyncio.TimerHandle | None = self.loop.call_later(REQUEST_SECONDS, self._drop)
        self._answer: asyncio.TimerHandle | None = None
        self._left = 0

    def data_received(self, data: bytes) -> None:
        """Take what has come; a request that has only begun has its time."""
        super().data_received(data)
        if not self._is_within_request():
            _stop(self._request)
            self._request = None
        elif self._request is None:
            self._request = self.loop.call_later(REQUEST_SECONDS, self._drop)

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
