"""The world's own clock, for an executor that works in it."""

import time
from datetime import UTC, datetime


class RealClock:
    """The time of day for what is stored, the monotonic clock for what is measured."""

    def now(self) -> datetime:
        """Return the time of day, in UTC."""
        return datetime.now(UTC)

    def seconds(self) -> float:
        """Return seconds that only ever grow."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)
