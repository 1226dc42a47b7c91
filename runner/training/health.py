"""Signs that a run is going wrong, each with a name that a planner can read.

Thresholds: truncation above 10–15 % destabilises training (ScaleRL, arXiv 2510.13786, appendix A.15).
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence

NAN_LOSS = "nan-loss"
ENTROPY_COLLAPSE = "entropy-collapse"
TRUNCATION = "truncation"
REWARD_COLLAPSE = "reward-collapse"

MOST_TRUNCATION = 0.15
COLLAPSED_ENTROPY = 0.01  # nats per token, while there is still something to learn
COLLAPSED_SHARE = 0.2  # of the best pass rate that the run has had
WINDOW = 5  # updates over which a pass rate is averaged: one poor batch is no collapse


class Health:
    """Watches the metrics of each update; what it remembers can be saved."""

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._best = 0.0

    def flags(self, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """Return the names of what is wrong after an update; one without rollouts has no entropy."""
        raised = []
        if not math.isfinite(metrics["loss"]) or not math.isfinite(metrics["grad_norm"]):
            raised.append(NAN_LOSS)
        if metrics.get("entropy", 1.0) < COLLAPSED_ENTROPY and metrics["pass_rate"] < 0.95:
            raised.append(ENTROPY_COLLAPSE)
        if metrics["truncated_share"] > MOST_TRUNCATION:
            raised.append(TRUNCATION)
        if self._collapsed(metrics["pass_rate"]):
            raised.append(REWARD_COLLAPSE)
        return tuple(raised)

    def _collapsed(self, pass_rate: float) -> bool:
        self._recent.append(pass_rate)
        if len(self._recent) < WINDOW:
            return False
        mean = sum(self._recent) / WINDOW
        self._best = max(self._best, mean)
        return mean < COLLAPSED_SHARE * self._best

    def state(self) -> list[float]:
        """Return what it remembers."""
        return [self._best, *self._recent]

    def restore(self, state: Sequence[float]) -> None:
        """Go on from a saved state."""
        self._best = state[0]
        self._recent = deque(state[1:], maxlen=WINDOW)
