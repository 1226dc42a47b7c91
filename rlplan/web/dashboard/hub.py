"""Who looks at what: one task per sweep reads it, however many browsers look on, and tells them what has changed."""

import asyncio
import time
from collections.abc import Callable

from budgets.errors import RlplanError, StoreUnavailableError
from rlplan.web.dashboard.snapshot import Part, Snapshot, trouble_message
from rlplan.web.dashboard.watched import Watched

POLL_SECONDS = 0.5
IDLE_SECONDS = 60.0  # a sweep that nobody has looked at for so long is not read any more
MOST_SWEEPS = 16  # that are kept in memory at once
MOST_LISTENERS = 400


class Listener:
    """A browser that looks on. It holds one message, the newest: who is slow misses some, and nobody waits for it."""

    def __init__(self) -> None:
        self._message: str | None = None
        self._told = asyncio.Event()
        self._closed = False

    def tell(self, message: str) -> None:
        """Leave a message in place of the last."""
        self._message = message
        self._told.set()

    def close(self) -> None:
        """End what waits for messages."""
        self._closed = True
        self._told.set()

    async def next(self, seconds: float) -> str | None:
        """Wait for a message; an empty one when none came in that time, None when there will be no more."""
        try:
            async with asyncio.timeout(seconds):
                await self._told.wait()
        except TimeoutError:
            return ""
        self._told.clear()
        message, self._message = self._message, None
        return None if self._closed else message or ""


class Room:
    """A sweep, the task that reads it, and who looks on."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.listeners: set[Listener] = set()
        self.trouble: RlplanError | None = None
        self._told: str | None = None
        self.looked = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def message(self) -> str | None:
        """What somebody who has just come is told."""
        if self.trouble is not None:
            return trouble_message(str(self.trouble))
        return self.watched.snapshot.message() if self.watched.snapshot else None

    @property
    def is_idle(self) -> bool:
        """Whether nobody looks on, and nobody has looked lately."""
        return not self.listeners and self.watched.idle_seconds > IDLE_SECONDS

    async def run(self) -> None:
        """Read the sweep again and again until nobody looks any more."""
        try:
            while True:
                began = time.monotonic()
                await self._try(self.watched.look)
                self.looked.set()
                self._tell()
                took = time.monotonic() - began
                while self.trouble is None and await self._try(self.watched.renew):
                    self._tell()
                if self.is_idle:
                    return
                # What takes long to read leaves as much time to who wants to see it.
                await asyncio.sleep(max(POLL_SECONDS, took))
        finally:
            self.looked.set()  # whoever still waits is not to wait for ever

    def _tell(self) -> None:
        message = self.message
        if message is not None and message != self._told:
            self._told = message
            for listener in self.listeners:
                listener.tell(message)

    async def _try(self, work: Callable[[], bool]) -> bool:
        from anyio.to_thread import run_sync  # noqa: PLC0415

        try:
            done = await run_sync(work, abandon_on_cancel=True)
        except RlplanError as error:
            self.trouble = error
            return False
        self.trouble = None
        return done


class Hub:
    """All sweeps that are looked at."""

    def __init__(self, watch: Callable[[str], Watched]) -> None:
        self._watch = watch  # NotFoundError when there is no such sweep; it reads, so it may take a moment
        self._rooms: dict[str, Room] = {}
        self._closed = False

    async def snapshot(self, sweep: str) -> Snapshot:
        """Return how a sweep stands, waiting only when nobody has looked for a while; RlplanError when it cannot."""
        room = await self._room(sweep)
        await room.looked.wait()
        if room.trouble is not None:
            raise room.trouble
        if room.watched.snapshot is None:
            raise StoreUnavailableError("the dashboard is being closed")
        return room.watched.snapshot

    async def part(self, sweep: str, name: str) -> Part:
        """Return a part of a sweep's page."""
        from anyio.to_thread import run_sync  # noqa: PLC0415

        await self.snapshot(sweep)
        watched = (await self._room(sweep)).watched
        return watched.part(name) if watched.has(name) else await run_sync(watched.part, name, abandon_on_cancel=True)

    async def listen(self, sweep: str) -> Listener:
        """Let a browser look on; StoreUnavailableError when there are too many."""
        if sum(len(room.listeners) for room in self._rooms.values()) >= MOST_LISTENERS:
            raise StoreUnavailableError(
                f"{MOST_LISTENERS} pages are open at once, and no more can follow live: close some, or reload this one"
            )
        room, listener = await self._room(sweep), Listener()
        room.listeners.add(listener)
        if room.message is not None:
            listener.tell(room.message)
        return listener

    def leave(self, sweep: str, listener: Listener) -> None:
        """Let a browser go."""
        if sweep in self._rooms:
            self._rooms[sweep].listeners.discard(listener)

    def close(self) -> None:
        """Let everybody go and read nothing more."""
        self._closed = True
        for room in self._rooms.values():
            for listener in room.listeners:
                listener.close()
            if room.task is not None:
                room.task.cancel()

    async def _room(self, sweep: str) -> Room:
        from anyio.to_thread import run_sync  # noqa: PLC0415

        if sweep not in self._rooms:
            watched = await run_sync(self._watch, sweep, abandon_on_cancel=True)
            self._make_place()
            self._rooms.setdefault(sweep, Room(watched))
        room = self._rooms[sweep]
        room.watched.touch()
        if (room.task is None or room.task.done()) and not self._closed:
            room.looked.clear()  # what was read before may be old by now
            room.task = asyncio.create_task(room.run(), name=f"reads {sweep}")
        return room

    def _make_place(self) -> None:
        """Forget the sweep that was left longest ago, if there are too many."""
        if len(self._rooms) < MOST_SWEEPS:
            return
        left = [name for name, room in self._rooms.items() if not room.listeners]
        if not left:
            raise StoreUnavailableError(f"{MOST_SWEEPS} sweeps are looked at at once, and no more can be: close a page")
        oldest = max(left, key=lambda name: self._rooms[name].watched.idle_seconds)
        task = self._rooms.pop(oldest).task
        if task is not None:
            task.cancel()
