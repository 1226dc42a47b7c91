"""When a falling training reward asks for a validation before its time; it warns of nothing, and decides nothing else.

Windows of updates are compared: the newest against the best that ended before it began. A reward that is merely noisy
asked for one in 3 of 24,000 drawn runs of 40 to 400 updates; the tests hold it to one run of 500.
"""

import math
from collections import deque
from typing import Any

LEAST_FALL = 0.10  # of the pass rate
ERRORS_APART = 6.0  # of the difference of two windows, by the scatter from one update to the next
FEWEST_IN_WINDOW = 8
OF_AN_INTERVAL = 4  # windows in what lies between two validations, where that is more
WITHOUT_LARGEST = 1.2  # the largest step is left out of the scatter, since it may be the fall itself


class RewardTrigger:
    """Sees the pass rate of each batch; what it remembers can be saved.

    After a validation that it asked for it counts anew, from where the reward then stands: another one takes another
    fall, and a regular validation in between.
    """

    def __init__(self, batches_between: int) -> None:
        """Take how many batches lie between two regular validations."""
        self._width = max(FEWEST_IN_WINDOW, batches_between // OF_AN_INTERVAL)
        self._recent: deque[float] = deque(maxlen=2 * self._width)
        self._best = 0.0
        self._last: float | None = None
        self._steps, self._squares, self._largest = 0, 0.0, 0.0
        self._spent = False  # for this interval

    def see(self, rate: float) -> float | None:
        """Return by how much the reward has fallen where that asks for a validation."""
        if self._last is not None:
            step = (rate - self._last) ** 2
            self._steps, self._squares, self._largest = self._steps + 1, self._squares + step, max(self._largest, step)
        self._last = rate
        self._recent.append(rate)
        if len(self._recent) < 2 * self._width:
            return None
        rates = list(self._recent)
        before, now = (sum(part) / self._width for part in (rates[: self._width], rates[self._width :]))
        self._best = max(self._best, before)
        scatter = WITHOUT_LARGEST * math.sqrt(max(0.0, self._squares - self._largest) / (self._steps - 1) / 2)
        allowed = max(LEAST_FALL, ERRORS_APART * scatter * math.sqrt(2 / self._width))
        fallen = self._best - now
        if self._spent or not fallen > allowed:
            return None
        self._begin()
        self._spent = True
        return fallen

    def validated(self) -> None:
        """Note that a regular validation has passed: it has seen what had fallen."""
        self._spent = False

    def state(self) -> dict[str, Any]:
        """Return what it remembers."""
        return {
            "recent": list(self._recent),
            "best": self._best,
            "last": self._last,
            "scatter": [self._steps, self._squares, self._largest],
            "spent": self._spent,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._recent = deque(state["recent"], maxlen=2 * self._width)
        self._best, self._last, self._spent = state["best"], state["last"], state["spent"]
        self._steps, self._squares, self._largest = state["scatter"]

    def _begin(self) -> None:
        self._recent.clear()
        self._best, self._last = 0.0, None
        self._steps, self._squares, self._largest = 0, 0.0, 0.0
