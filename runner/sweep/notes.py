"""Keeps the log of a sweep: every decision, and everything that a reader of it should know, numbered."""

from typing import Any

from planner.store.schema import Decision
from planner.sweeping.actions import Why
from runner.ports.executor import Clock
from runner.sweep.journal import Journal


class Log:
    """Adds decisions to what the journal commits."""

    def __init__(self, journal: Journal, clock: Clock, sweep_id: int, last_number: int) -> None:
        """Go on after the last number that the sweep has."""
        self._journal, self._clock, self._sweep_id, self._number = journal, clock, sweep_id, last_number

    @property
    def count(self) -> int:
        """How many there are."""
        return self._number

    def decided(self, action: str, trial: int | None, why: Why) -> None:
        """Store a decision with what it rested on."""
        self._number += 1
        row: dict[str, Any] = {
            "sweep_id": self._sweep_id,
            "number": self._number,
            "at": self._clock.now(),
            "action": action,
            "trial_id": trial,
            "reason": why.reason,
            "seen": why.seen,
            "alternatives": why.alternatives,
        }
        self._journal.add(lambda session: session.add(Decision(**row)))

    def note(self, action: str, trial: int | None, reason: str, **seen: Any) -> None:
        """Store what happened without anyone deciding it."""
        self.decided(action, trial, Why(reason, seen))
