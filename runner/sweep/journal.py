"""Writes what a driver did and why, one transaction a turn, and only while the sweep is still its own."""

import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import Session

from budgets.errors import StoreError, StoreUnavailableError
from planner.policy.actions import Why
from planner.store import Store
from planner.store.base import Base
from planner.store.control import Driver, end_lease, hold_lease
from planner.store.results import add_points
from planner.store.schema import Decision, Point, SweepStatus
from runner.ports.executor import Clock

Write = Callable[[Session], object]

HEARTBEAT_SECONDS = 5.0
FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
TRACE_CHARACTERS = 4000  # of an error's, its end
SECONDS_BETWEEN_LOOKS = 0.5  # at whether the user wants an end
SECONDS_BETWEEN_WORDS = 60.0
UNSTORED = "How the sweep ended is not saved: `rlplan resume` settles it"
PATIENCE_SECONDS = 600.0  # with a database that is locked, unreachable or full


class UnstoredError(StoreUnavailableError):
    """What was added is not stored yet, and is kept."""


class Journal:
    """Collects writes and commits them together; what could not be committed yet is kept and tried again."""

    def __init__(
        self,
        store: Store,
        sweep_id: int,
        driver: Driver,
        clock: Clock,
        decisions: int = 0,
        say: Callable[[str], None] = lambda text: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Write as a driver that holds the sweep's lease, and number on from the decisions that the sweep has.

        `say` tells the user what cannot be stored; `interrupted` whether they want an end of it.
        """
        self._say, self._interrupted = say, interrupted
        self._waited = self._next_try = 0.0
        self._last_notice = -SECONDS_BETWEEN_WORDS
        self.store, self.sweep_id, self.clock, self.decisions = store, sweep_id, clock, decisions
        self._driver = driver
        self._writes: list[Write] = []
        self._points: list[Point] = []
        self._beaten = -HEARTBEAT_SECONDS
        self._left_out: set[tuple[str, str]] = set()

    def add(self, write: Write) -> None:
        """Have a write done with the next commit; it may be called again when a commit fails."""
        self._writes.append(write)

    def add_row(self, table: type[Base], **columns: Any) -> None:
        """Have a row stored with the next commit, made anew when one fails."""
        self.add(lambda session: session.add(table(**columns)))

    def add_points(self, points: Sequence[Point]) -> None:
        """Have points stored with the next commit, all in one go: there are many of them."""
        self._points += points

    def decided(self, action: str, trial: int | None, why: Why) -> None:
        """Have a decision stored, with what it rested on."""
        self.decisions += 1
        self.add_row(
            Decision,
            sweep_id=self.sweep_id,
            number=self.decisions,
            at=self.clock.now(),
            action=action,
            trial_id=trial,
            reason=why.reason,
            seen=why.figures,
            alternatives=why.alternatives,
        )

    def note(self, action: str, trial: int | None, reason: str, **details: Any) -> None:
        """Have what a reader of the sweep should know stored among the decisions, though nobody decided it."""
        self.decided(action, trial, Why(reason, details))

    @contextmanager
    def going_on(self, what: str) -> Iterator[None]:
        """Leave out what only tells or believes something when it fails, such as "the fits were": training goes on.

        It is noted once for each kind of error. What ails the database is for the next commit to say.
        """
        try:
            yield
        except Exception as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreUnavailableError):
                raise
            if (kind := (what, type(error).__name__)) not in self._left_out:
                self._left_out.add(kind)
                message = f"{what} left out: {type(error).__name__}: {error}. Training goes on"
                self.note("left-out", None, message, trace=traceback.format_exc()[-TRACE_CHARACTERS:])

    @property
    def behind(self) -> bool:
        """Whether the last commit failed, so that what was added since is not stored."""
        return self._waited > 0

    def commit(self) -> None:
        """Commit what was added, with a heartbeat, or just the heartbeat when one is due.

        UnstoredError while the database is locked, unreachable or full: all is kept for a later call, and nothing that
        rests on it may begin. StoreUnavailableError once that has lasted too long for a passing trouble.
        """
        now = self.clock.seconds()
        if not (self._writes or self._points or now - self._beaten >= HEARTBEAT_SECONDS):
            return
        if now < self._next_try:
            raise UnstoredError("the database cannot be written yet")
        try:
            self._commit()
        except StoreUnavailableError as error:
            self._next_try = now + self._pause_after(error)
            raise UnstoredError(str(error)) from error

    def end(self, status: SweepStatus, *, patiently: bool = True) -> None:
        """Commit what is left and let go of the sweep; not patiently, or once interrupted, this is tried only once."""
        driver, sweep_id = self._driver, self.sweep_id
        self.add(lambda session: end_lease(session, sweep_id, driver, status, self.clock.now()))
        try:
            while True:
                try:
                    return self._commit()
                except StoreUnavailableError as error:
                    if not patiently or self._interrupted():
                        raise StoreUnavailableError(f"{error}. {UNSTORED}") from error
                    self._rest(self._pause_after(error))
        except KeyboardInterrupt:
            raise StoreUnavailableError(f"{self.store.location} could not be written. {UNSTORED}") from None

    def _commit(self) -> None:
        with self.store.write() as session:
            hold_lease(session, self.sweep_id, self._driver, self.clock.now())
            for write in self._writes:
                write(session)
            add_points(session, self._points)
        self._writes.clear()
        self._points.clear()
        self._beaten = self.clock.seconds()
        self._waited, self._last_notice = 0.0, -SECONDS_BETWEEN_WORDS

    def _pause_after(self, error: StoreUnavailableError) -> float:
        """Return how long to wait after a failed commit, and say now and then that there is a trouble."""
        if self._waited >= PATIENCE_SECONDS:
            raise error
        now = self.clock.seconds()
        if now - self._last_notice >= SECONDS_BETWEEN_WORDS:
            self._last_notice = now
            self._say(
                f"{error}. It is tried again for {PATIENCE_SECONDS / 60:g} minutes; until then nothing new begins"
            )
        pause = min(FIRST_WAIT + self._waited, LONGEST_WAIT)
        self._waited += pause
        return pause

    def _rest(self, seconds: float) -> None:
        while seconds > 0 and not self._interrupted():
            time.sleep(min(seconds, SECONDS_BETWEEN_LOOKS))
            seconds -= SECONDS_BETWEEN_LOOKS
