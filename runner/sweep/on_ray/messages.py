"""What the driver, its child and the workers say to each other: lines of JSON, and the mailbox that workers ask."""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from typing import Any

from runner.ports.executor import Began, Ended, Event, Failed, Progress
from runner.training.trial import point_from

Message = dict[str, Any]

NAMESPACE = "rlplan"  # of what a sweep names in Ray

_EVENTS: dict[str, type[Event]] = {"began": Began, "progress": Progress, "ended": Ended, "failed": Failed}
_NAMES = {kind: name for name, kind in _EVENTS.items()}


def encoded(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line."""
    return json.dumps(message).encode("ascii") + b"\n"


def decoded(line: bytes) -> Message:
    """Return the message of a line."""
    message: Message = json.loads(line)
    return message


def message_of(event: Event) -> Message:
    """Return an event of a worker as a message, with its name under `event`."""
    return {"event": _NAMES[type(event)], **asdict(event)}


def event_of(message: Message) -> Event | None:
    """Return the worker's event in a message; None for a message of another kind."""
    kind = _EVENTS.get(message["event"])
    if kind is None:
        return None
    values = {name: message[name] for name in kind.__dataclass_fields__}
    if kind is Progress:
        values["points"] = tuple(point_from(point) for point in values["points"])
    if kind is Ended:
        values["notes"] = tuple(values["notes"])
    return kind(**values)


class Mailbox:
    """A Ray actor that keeps messages to a lease until its worker has them; all methods run in one event loop."""

    def __init__(self) -> None:
        self._boxes: defaultdict[str, list[Message]] = defaultdict(list)
        self._news: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._numbers = count(1)
        self._driver_heard_at = time.monotonic()

    async def alive(self) -> None:
        """Note that the driver lives: this process may outlive it, or a driver that is frozen."""
        self._driver_heard_at = time.monotonic()

    async def tell(self, lease: str, message: Message) -> None:
        """Leave a message."""
        self._boxes[lease].append({**message, "number": next(self._numbers)})
        self._news[lease].set()

    async def fetch(self, lease: str, last: int, seconds: float) -> tuple[float, list[Message]]:
        """Return the driver's silence in seconds, and a lease's messages after the last that its worker has.

        One is waited for. They are kept until then: an answer may be lost on its way.
        """
        box, news = self._boxes[lease], self._news[lease]
        box[:] = [message for message in box if message["number"] > last]
        if not box:
            news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), seconds)
        return time.monotonic() - self._driver_heard_at, list(self._boxes[lease])

    async def forget(self, lease: str) -> None:
        """Drop what is kept for a lease that is over."""
        self._boxes.pop(lease, None)
        self._news.pop(lease, None)

    async def live(self) -> None:
        """Never return: a caller learns of this actor's end by the error."""
        await asyncio.Event().wait()
