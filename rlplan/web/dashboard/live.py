"""Keeps the pages of sweeps up to date: a sweep whose rows have changed is read again, and fitted in the background."""

import time
from collections.abc import Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Lock

from markupsafe import Markup

from budgets.errors import RlplanError, StoreError
from planner.store import Store, open_store
from planner.store.schema import SweepStatus
from planner.store.sweeps import sweep_named
from rlplan.reading.beliefs import beliefs, mark
from rlplan.reading.story import Beliefs, Story, story
from rlplan.reading.sweep_words import time_of
from rlplan.web import page

TITLES = {"now": "Now", **page.TITLES}
LOCK_SECONDS = 2.0  # a visitor should sooner hear of a lock than wait for it
FRESH_SECONDS = 0.5  # before rows are looked at again, however many visitors there are
TICK_SECONDS = 10.0  # of a running sweep: how long its driver has been silent changes without a row
# A fit of a large sweep takes seconds: it is not to take more than a fifth of a core away from what shows it.
SHORTEST_PAUSE_SECONDS, PAUSE_PER_SECOND_OF_WORK = 5.0, 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """What was believed of a sweep at a moment, or why that could not be worked out."""

    rows: str  # the mark of the rows it rests on
    beliefs: Beliefs | None
    at: datetime
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A sweep and the parts of its page as HTML; the key is another when they would be."""

    key: tuple[str, Fit | None, float]
    story: Story
    parts: Mapping[str, str]


class LiveSweep:
    """A sweep that is looked at: it is read once for all visitors."""

    def __init__(self, database: str, name: str, fitters: Executor) -> None:
        self._database, self._name, self._fitters = database, name, fitters
        self._lock = Lock()
        self._newest: Snapshot | RlplanError | None = None
        self._fit: Fit | None = None
        self._fitting: Future[None] | None = None
        self._read_due = self._fit_due = 0.0

    def snapshot(self) -> Snapshot:
        """Return the newest snapshot; RlplanError when the sweep cannot be read.

        One visitor at a time waits until it is read again; the others get what there is.
        """
        began = time.monotonic()
        if began >= self._read_due and self._lock.acquire(blocking=self._newest is None):
            try:
                with opened(self._database) as store:
                    self._newest = self._renewed(store)
            except RlplanError as error:
                self._newest = error
            finally:
                now = time.monotonic()
                self._read_due = now + max(FRESH_SECONDS, now - began)  # what takes long to read is read less often
                self._lock.release()
        if not isinstance(self._newest, Snapshot):
            raise self._newest or StoreError("the sweep could not be read")
        return self._newest

    def _renewed(self, store: Store) -> Snapshot:
        """Return the snapshot of this moment, the one that there is where nothing has changed; a fit may begin."""
        with store.read() as session:
            row = sweep_named(session, self._name)
            rows, is_running = mark(session, row.id), row.status is SweepStatus.RUNNING
        now, fit = time.monotonic(), self._fit
        is_idle = now >= self._fit_due and (self._fitting is None or self._fitting.done())
        if is_idle and (fit is None or fit.rows != rows):
            self._fitting = self._fitters.submit(self._fit_curves, rows)
        key = rows, fit, now // TICK_SECONDS if is_running else 0.0
        if isinstance(self._newest, Snapshot) and self._newest.key == key:
            return self._newest
        told = story(store, self._name)
        return Snapshot(key, told, {name: section(name, told, fit) for name in TITLES})

    def _fit_curves(self, rows: str) -> None:
        """Work out what is believed on the newest rows; what was believed before stays where that fails."""
        began = time.monotonic()
        try:
            with opened(self._database) as store:
                self._fit = Fit(rows, beliefs(store, self._name), datetime.now(UTC))
        except Exception as error:  # whatever a damaged row makes of a fit: the page is to say so
            problem = str(error) if isinstance(error, RlplanError) else f"It failed ({type(error).__name__})."
            self._fit = Fit(rows, self._fit.beliefs if self._fit else None, datetime.now(UTC), problem)
        now = time.monotonic()
        self._fit_due = now + max(SHORTEST_PAUSE_SECONDS, PAUSE_PER_SECOND_OF_WORK * (now - began))


def opened(database: str) -> Store:
    """Open the database for one look: it may vanish, be replaced and come back."""
    return open_store(database, read_only=True, lock_timeout_seconds=LOCK_SECONDS)


def section(name: str, told: Story, fit: Fit | None) -> str:
    """Render a section; one that cannot be rendered says so, and the others are there."""
    try:
        if name in page.SECTIONS:
            return page.section(name, told, fit.beliefs if fit else None)
        summary = Markup(page.summary(told))
        return page.rendered("dashboard/now.html", story=told, fit=fit, time=time_of(told.picture), summary=summary)
    except Exception as error:  # a damaged row may make any part of it fail, in ways that nobody has listed
        return page.rendered("dashboard/broken.html", title=TITLES[name], kind=type(error).__name__)
