"""The letter box between the driver and the workers: a Ray actor at which every lease waits for its next message."""

import asyncio
from collections import defaultdict

from runner.sweep.on_ray.messages import Message

NAMESPACE = "rlplan"


class Grants:
    """Keeps the messages of each lease until its worker fetches them; all methods run in one event loop."""

    def __init__(self) -> None:
        self._boxes: defaultdict[str, list[Message]] = defaultdict(list)
        self._news: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def tell(self, lease: str, message: Message) -> None:
        """Leave a message."""
        self._boxes[lease].append(message)
        self._news[lease].set()

    async def fetch(self, lease: str, seconds: float) -> list[Message]:
        """Return the messages of a lease, waiting for the first."""
        try:
            await asyncio.wait_for(self._news[lease].wait(), seconds)
        except TimeoutError:
            return []
        messages, self._boxes[lease] = self._boxes[lease], []
        self._news[lease].clear()
        return messages

    async def forget(self, lease: str) -> None:
        """Drop what is kept for a lease that is over."""
        self._boxes.pop(lease, None)
        self._news.pop(lease, None)

    async def live(self) -> None:
        """Never return: a caller learns of this actor's end by the error."""
        await asyncio.Event().wait()
