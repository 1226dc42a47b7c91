"""A clock that stands still until somebody moves it."""

from datetime import UTC, datetime, timedelta
from typing import Final

BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC)


class SimulatedClock:
    """Starts at 0 seconds; the time of day can be made to jump without them."""

    def __init__(self, beginning: datetime = BEGINNING) -> None:
        self._beginning = beginning
        self._seconds = 0.0
        self._jumped = 0.0

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return self._beginning + timedelta(seconds=self._seconds + self._jumped)

    def seconds(self) -> float:
        """Return the seconds since the beginning."""
        return self._seconds

    def advance_to(self, seconds: float) -> None:
        """Let time pass; it never goes back."""
        self._seconds = max(self._seconds, seconds)

    def jump(self, seconds: float) -> None:
        """Put the time of day forward or back, as a corrected clock does."""
        self._jumped += seconds
