"""Works out what is believed of the sweeps that are looked at: in one thread, and never while a visitor waits."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from budgets.errors import RlplanError
from rlplan.reading.story import Beliefs

# A fit of a large sweep takes seconds: it is not to take more than a fifth of a core away from what shows it.
SHORTEST_PAUSE_SECONDS = 5.0
PAUSE_PER_SECOND_OF_WORK = 4.0

Work = Callable[[str], Beliefs]


@dataclass(frozen=True, slots=True)
class Fitted:
    """What was believed of a sweep at a moment, or why that could not be worked out."""

    mark: str  # of the rows it rests on
    beliefs: Beliefs | None
    at: datetime
    problem: str | None = None


class CurveFitter:
    """A thread that keeps beliefs up to date, the sweep first that was asked for last."""

    def __init__(self, work: Work, *, pause_seconds: float = SHORTEST_PAUSE_SECONDS) -> None:
        self._work, self._pause = work, pause_seconds
        self._wanted: dict[str, str] = {}  # mark by sweep
        self._fitted: dict[str, Fitted] = {}
        self._not_before: dict[str, float] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def fitted(self, sweep: str) -> Fitted | None:
        """Return what is known by now."""
        return self._fitted.get(sweep)

    def ask(self, sweep: str, mark: str) -> None:
        """Have the beliefs on these rows worked out, if they are not yet."""
        fitted = self._fitted.get(sweep)
        if fitted is not None and fitted.mark == mark:
            return
        with self._changed:
            self._wanted.pop(sweep, None)
            self._wanted[sweep] = mark
            if self._thread is None and not self._closed:
                # A daemon: nobody waits for a fit to leave the dashboard.
                self._thread = threading.Thread(target=self._run, name="beliefs", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self, seconds: float = 0.0) -> bool:
        """Begin nothing more, wait so long at most for what is under way, and say whether it has ended."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is None:
            return True
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (next_one := self._next()) is not None:
            sweep, mark = next_one
            begun = time.monotonic()
            self._fitted[sweep] = self._believed(sweep, mark)
            took = time.monotonic() - begun
            with self._changed:
                self._not_before[sweep] = time.monotonic() + max(self._pause, took * PAUSE_PER_SECOND_OF_WORK)
                if self._wanted.get(sweep) == mark:  # asked for again while it was being worked out
                    del self._wanted[sweep]

    def _next(self) -> tuple[str, str] | None:
        """Wait for work and take it; None when there will be no more."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                due = [sweep for sweep in self._wanted if self._not_before.get(sweep, 0.0) <= now]
                if due:
                    return due[-1], self._wanted.pop(due[-1])
                waits = [self._not_before[sweep] - now for sweep in self._wanted]
                self._changed.wait(min(waits, default=None))
        return None

    def _believed(self, sweep: str, mark: str) -> Fitted:
        try:
            beliefs, problem = self._work(sweep), None
        except RlplanError as error:
            beliefs, problem = None, str(error)
        except Exception as error:  # the thread must live: it fits the other sweeps too
            beliefs, problem = None, f"what is stored could not be fitted ({type(error).__name__})"
        before = self._fitted.get(sweep)
        if beliefs is None and before is not None:
            beliefs = before.beliefs
        return Fitted(mark, beliefs, datetime.now(UTC), problem)
