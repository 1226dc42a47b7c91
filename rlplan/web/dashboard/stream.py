"""Server-sent events: how a page hears that something has changed."""

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import Response

from rlplan.web.dashboard.hub import Hub, Listener

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

BEAT_SECONDS = 10.0  # the page takes a longer silence for a lost connection
RECONNECT_MILLISECONDS = 1500


class Stream(Response):
    """Messages about a sweep to one browser, until it goes or the dashboard ends."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, sweep: str, listener: Listener) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._hub, self._sweep, self._listener = hub, sweep, listener

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Send what there is to tell; a browser that is gone, or takes nothing more, ends it."""
        leaving = asyncio.create_task(self._leaving(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                await self._tell(send)
            await send({"type": "http.response.body", "body": b""})
        finally:
            leaving.cancel()
            self._hub.leave(self._sweep, self._listener)

    async def _tell(self, send: "Send") -> None:
        text: str | None = f"retry: {RECONNECT_MILLISECONDS}\n\n"
        while text is not None:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
            message = await self._listener.next(BEAT_SECONDS)
            text = None if message is None else f"event: {'state' if message else 'beat'}\ndata: {message or '{}'}\n\n"

    async def _leaving(self, receive: "Receive") -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._listener.close()
