"""Who looks at what: one task per sweep reads it, however many browsers look on, and tells them what has changed."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from weakref import WeakSet

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from sse_starlette import EventSourceResponse, ServerSentEvent

from budgets.errors import RlplanError, StoreUnavailableError
from rlplan.web.dashboard.snapshots import Part, Snapshot, SweepReader, trouble_message

POLL_SECONDS = 0.5
IDLE_SECONDS = 60.0  # a sweep that nobody has looked at for so long is not read any more
MOST_SWEEPS = 16  # that are kept in memory at once
MOST_WATCHERS = 400
BEAT_SECONDS = 10.0  # the page takes a longer silence for a lost connection
STUCK_SECONDS = 15.0  # for which a browser may take nothing of a message
RECONNECT_MILLISECONDS = 1500


class Watcher:
    """A browser that looks on; it is let go with the answer that holds it, however that ends."""


class LiveSweep:
    """A sweep, the task that reads it, and who looks on."""

    def __init__(self, reader: SweepReader, fits: CapacityLimiter) -> None:
        self.reader = reader
        self._fits = fits
        self._fitting: asyncio.Task[None] | None = None
        self.watchers: WeakSet[Watcher] = WeakSet()
        self.trouble: RlplanError | None = None
        self.looked = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self._changed, self._closed = asyncio.Event(), False
        self._told: str | None = None

    @property
    def message(self) -> str | None:
        """What somebody who has just come is told."""
        if self.trouble is not None:
            return trouble_message(str(self.trouble))
        return self.reader.snapshot.message() if self.reader.snapshot else None

    @property
    def is_idle(self) -> bool:
        """Whether nobody looks on, and nobody has looked lately."""
        return not self.watchers and self.reader.idle_seconds > IDLE_SECONDS

    async def events(self, watcher: Watcher) -> AsyncIterator[ServerSentEvent]:
        """Tell a browser what changes: always the newest, so who is slow misses some, and nobody waits for it."""
        told = None
        try:
            yield ServerSentEvent(retry=RECONNECT_MILLISECONDS, sep="\n")
            while not self._closed:
                changed, message = self._changed, self.message
                if message is None or message == told:
                    await changed.wait()
                else:
                    told = message
                    yield ServerSentEvent(message, event="state", sep="\n")
        finally:
            self.watchers.discard(watcher)

    def close(self) -> None:
        """Let everybody go and read nothing more."""
        self._closed = True
        self._changed.set()
        for task in (self.task, self._fitting):
            if task is not None:
                task.cancel()

    async def run(self) -> None:
        """Read the sweep again and again until nobody looks any more."""
        try:
            while True:
                began = time.monotonic()
                await self._try(self.reader.look)
                self.looked.set()
                self._tell()
                self._fit()
                took = time.monotonic() - began
                while self.trouble is None and await self._try(self.reader.renew):
                    self._tell()
                if self.is_idle:
                    return
                # What takes long to read leaves as much time to who wants to see it.
                await asyncio.sleep(max(POLL_SECONDS, took))
        finally:
            self.looked.set()  # whoever still waits is not to wait for ever

    def _tell(self) -> None:
        if self.message != self._told:
            self._told = self.message
            self._changed.set()
            self._changed = asyncio.Event()

    def _fit(self) -> None:
        """Have the curves fitted while visitors are served; nobody waits for it."""
        if self.reader.fit_is_due and (self._fitting is None or self._fitting.done()):
            work = run_sync(self.reader.fit, limiter=self._fits, abandon_on_cancel=True)
            self._fitting = asyncio.create_task(work, name=f"fits {self.reader.sweep}")

    async def _try(self, work: Callable[[], bool]) -> bool:
        try:
            done = await run_sync(work, abandon_on_cancel=True)
        except RlplanError as error:
            self.trouble = error
            return False
        self.trouble = None
        return done


class LiveSweeps:
    """All sweeps that are looked at."""

    def __init__(self, reader_of: Callable[[str], SweepReader]) -> None:
        self._reader_of = reader_of  # NotFoundError when there is no such sweep; it reads, so it may take a moment
        self._sweeps: dict[str, LiveSweep] = {}
        self._fits = CapacityLimiter(1)  # of all sweeps together
        self._closed = False

    @property
    def is_fitting(self) -> bool:
        """Whether a fit is under way, which nothing can interrupt."""
        return any(sweep.reader.is_fitting for sweep in self._sweeps.values())

    async def snapshot(self, name: str) -> Snapshot:
        """Return how a sweep stands, waiting only when nobody has looked for a while; RlplanError when it cannot."""
        sweep = await self._sweep(name)
        await sweep.looked.wait()
        if sweep.trouble is not None:
            raise sweep.trouble
        if sweep.reader.snapshot is None:
            raise StoreUnavailableError("the dashboard is being closed")
        return sweep.reader.snapshot

    async def part(self, name: str, section: str) -> Part:
        """Return a part of a sweep's page."""
        await self.snapshot(name)
        reader = (await self._sweep(name)).reader
        if reader.has(section):
            return reader.part(section)
        return await run_sync(reader.part, section, abandon_on_cancel=True)

    async def watch(self, name: str) -> EventSourceResponse:
        """Let a browser look on; StoreUnavailableError when there are too many."""
        if sum(len(sweep.watchers) for sweep in self._sweeps.values()) >= MOST_WATCHERS:
            raise StoreUnavailableError(
                f"{MOST_WATCHERS} pages are open at once, and no more can follow live: close some, or reload this one"
            )
        sweep, watcher = await self._sweep(name), Watcher()
        sweep.watchers.add(watcher)
        return EventSourceResponse(
            sweep.events(watcher),
            sep="\n",
            ping=BEAT_SECONDS,
            ping_message_factory=lambda: ServerSentEvent("{}", event="beat", sep="\n"),
            send_timeout=STUCK_SECONDS,
        )

    def close(self) -> None:
        """Let everybody go and read nothing more."""
        self._closed = True
        for sweep in self._sweeps.values():
            sweep.close()

    async def _sweep(self, name: str) -> LiveSweep:
        if name not in self._sweeps:
            reader = await run_sync(self._reader_of, name, abandon_on_cancel=True)
            self._make_place()
            self._sweeps.setdefault(name, LiveSweep(reader, self._fits))
        sweep = self._sweeps[name]
        sweep.reader.touch()
        if (sweep.task is None or sweep.task.done()) and not self._closed:
            sweep.looked.clear()  # what was read before may be old by now
            sweep.task = asyncio.create_task(sweep.run(), name=f"reads {name}")
        return sweep

    def _make_place(self) -> None:
        """Forget the sweep that was left longest ago, if there are too many."""
        if len(self._sweeps) < MOST_SWEEPS:
            return
        left = [name for name, sweep in self._sweeps.items() if not sweep.watchers]
        if not left:
            raise StoreUnavailableError(f"{MOST_SWEEPS} sweeps are looked at at once, and no more can be: close a page")
        oldest = max(left, key=lambda name: self._sweeps[name].reader.idle_seconds)
        self._sweeps.pop(oldest).close()
