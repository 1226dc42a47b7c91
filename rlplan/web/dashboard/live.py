"""Who looks at what: each sweep that is looked at is read once for all, when what is known of it has become old."""

import asyncio
import math
import time
from collections.abc import Callable

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from budgets.errors import RlplanError, StoreUnavailableError
from rlplan.web.dashboard.snapshots import Part, Snapshot, SweepReader, trouble_message

FRESH_SECONDS = 0.5  # for which what was read is not read again, however many look
STALE_SECONDS = 5.0  # from which on a visitor waits until it is; a page that is open asks more often
MOST_SWEEPS = 16  # that are kept in memory at once


class LiveSweep:
    """A sweep that is looked at: one task at a time reads it, and one fits its curves."""

    def __init__(self, reader: SweepReader, fits: CapacityLimiter) -> None:
        self.reader = reader
        self.trouble: RlplanError | None = None
        self.asked_at = time.monotonic()
        self._fits = fits
        self._read_at, self._took = -math.inf, 0.0
        self._reading: asyncio.Task[None] | None = None
        self._fitting: asyncio.Task[None] | None = None

    @property
    def snapshot(self) -> Snapshot:
        """How the sweep stands; RlplanError when it cannot be read."""
        if self.trouble is not None:
            raise self.trouble
        if self.reader.snapshot is None:
            raise StoreUnavailableError("the dashboard is being closed")
        return self.reader.snapshot

    async def renew(self) -> None:
        """Have what is known renewed where it has become old, and wait for that where it is stale."""
        self.asked_at = now = time.monotonic()
        # What takes long to read leaves as much time to who wants to see it.
        if (self._reading is None or self._reading.done()) and now - self._read_at > max(FRESH_SECONDS, self._took):
            self._reading = asyncio.create_task(self._read(), name=f"reads {self.reader.sweep}")
        if self._reading is not None and now - self._read_at > STALE_SECONDS:
            await asyncio.shield(self._reading)

    def close(self) -> None:
        """Read nothing more."""
        for task in (self._reading, self._fitting):
            if task is not None:
                task.cancel()

    async def _read(self) -> None:
        began = time.monotonic()
        try:
            await run_sync(self.reader.look, abandon_on_cancel=True)
            self.trouble = None
        except RlplanError as error:
            self.trouble = error
        self._read_at = time.monotonic()
        self._took = self._read_at - began
        if self.reader.fit_is_due and (self._fitting is None or self._fitting.done()):
            work = run_sync(self.reader.fit, limiter=self._fits, abandon_on_cancel=True)
            self._fitting = asyncio.create_task(work, name=f"fits {self.reader.sweep}")


class LiveSweeps:
    """All sweeps that are looked at."""

    def __init__(self, reader_of: Callable[[str], SweepReader]) -> None:
        self._reader_of = reader_of  # NotFoundError when there is no such sweep; it reads, so it may take a moment
        self._sweeps: dict[str, LiveSweep] = {}
        self._fits = CapacityLimiter(1)  # of all sweeps together

    @property
    def is_fitting(self) -> bool:
        """Whether a fit is under way, which nothing can interrupt."""
        return any(sweep.reader.is_fitting for sweep in self._sweeps.values())

    async def snapshot(self, name: str) -> Snapshot:
        """Return how a sweep stands, waiting only when nobody has looked for a while; RlplanError when it cannot."""
        return (await self._sweep(name)).snapshot

    async def state(self, name: str) -> str:
        """Return which sections a sweep has in which version, or why it cannot be read now."""
        sweep = await self._sweep(name)
        return sweep.snapshot.message() if sweep.trouble is None else trouble_message(str(sweep.trouble))

    async def part(self, name: str, section: str) -> Part:
        """Return a part of a sweep's page."""
        sweep = await self._sweep(name)
        if (ready := sweep.snapshot.parts.get(section)) is not None:
            return ready
        return await run_sync(sweep.reader.part, section, abandon_on_cancel=True)

    def close(self) -> None:
        """Read nothing more."""
        for sweep in self._sweeps.values():
            sweep.close()

    async def _sweep(self, name: str) -> LiveSweep:
        if name not in self._sweeps:
            reader = await run_sync(self._reader_of, name, abandon_on_cancel=True)
            if len(self._sweeps) >= MOST_SWEEPS:  # the one that was left longest ago
                self._sweeps.pop(min(self._sweeps, key=lambda each: self._sweeps[each].asked_at))
            self._sweeps.setdefault(name, LiveSweep(reader, self._fits))
        sweep = self._sweeps[name]
        await sweep.renew()
        return sweep
