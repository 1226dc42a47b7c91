"""Who looks at what: each sweep that is looked at is read once for all, when what is known of it has become old."""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait

from budgets.errors import RlplanError, StoreUnavailableError
from rlplan.web.dashboard.snapshots import Snapshot, SweepReader

FRESH_SECONDS = 0.5  # for which what was read is not read again, however many look
STALE_SECONDS = 5.0  # from which on a visitor waits until it is; a page that is open asks more often
LONGEST_SECONDS = 30.0  # that a visitor waits
MOST_SWEEPS = 16  # that are kept in memory at once


class LiveSweep:
    """A sweep that is looked at: one thread at a time reads it, and one fits its curves."""

    def __init__(self, reader: SweepReader, readers: Executor, fits: Executor) -> None:
        self.reader = reader
        self.trouble: RlplanError | None = None
        self.asked_at = time.monotonic()
        self._readers, self._fits, self._lock = readers, fits, threading.Lock()
        self._read_at, self._took = -math.inf, 0.0
        self._reading: Future[None] | None = None
        self._fitting: Future[None] | None = None

    @property
    def snapshot(self) -> Snapshot:
        """How the sweep stands; RlplanError when it cannot be read."""
        if self.trouble is not None:
            raise self.trouble
        if self.reader.snapshot is None:
            raise StoreUnavailableError("the database does not answer, or the dashboard is being closed")
        return self.reader.snapshot

    def renew(self) -> None:
        """Have what is known renewed where it has become old, and wait for that where it is stale."""
        self.asked_at = now = time.monotonic()
        with self._lock:
            # What takes long to read leaves as much time to who wants to see it.
            if (self._reading is None or self._reading.done()) and now - self._read_at > max(FRESH_SECONDS, self._took):
                self._reading = self._readers.submit(self._read)
            reading = self._reading
        if reading is not None and now - self._read_at > STALE_SECONDS:
            wait([reading], LONGEST_SECONDS)

    def _read(self) -> None:
        began = time.monotonic()
        try:
            self.reader.look()
            self.trouble = None
        except RlplanError as error:
            self.trouble = error
        self._read_at = time.monotonic()
        self._took = self._read_at - began
        if self.reader.fit_is_due and (self._fitting is None or self._fitting.done()):
            self._fitting = self._fits.submit(self.reader.fit)


class LiveSweeps:
    """All sweeps that are looked at."""

    def __init__(self, reader_of: Callable[[str], SweepReader]) -> None:
        self._reader_of = reader_of  # NotFoundError when there is no such sweep
        self._sweeps: dict[str, LiveSweep] = {}
        self._lock = threading.Lock()
        self._readers = ThreadPoolExecutor(MOST_SWEEPS, "reads")
        self._fits = ThreadPoolExecutor(1, "fits")  # of all sweeps together

    def of(self, name: str) -> LiveSweep:
        """Return a sweep, waiting only when nobody has looked for a while; NotFoundError when there is none."""
        sweep = self._sweeps.get(name)
        if sweep is None:
            made = LiveSweep(self._reader_of(name), self._readers, self._fits)
            with self._lock:
                if len(self._sweeps) >= MOST_SWEEPS:  # the one that was left longest ago
                    self._sweeps.pop(min(self._sweeps, key=lambda each: self._sweeps[each].asked_at))
                sweep = self._sweeps.setdefault(name, made)
        sweep.renew()
        return sweep

    def close(self) -> None:
        """Read nothing more."""
        for pool in (self._readers, self._fits):
            pool.shutdown(wait=False, cancel_futures=True)
