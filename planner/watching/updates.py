"""What the metrics of updates warn of: numbers that are not finite, and a run in which nothing is learnt at all."""

import math
from collections.abc import Mapping
from typing import Any

from planner.watching.rules import Warned

DEAD_UPDATES = 5  # in a row
FEWEST_GROUPS = 8
WITHOUT_SIGNAL = 0.999  # share of groups whose rewards are all alike
HARDLY_RIGHT = 0.02  # pass rate


class UpdateWatch:
    """Watches the metrics of each update, by our names; what it remembers can be saved."""

    def __init__(self, groups: int | None = None) -> None:
        """Take how many groups an update has, where that is known."""
        self._groups = groups
        self._dead = 0

    def see(self, step: int, metrics: Mapping[str, Any]) -> Warned | None:
        """Return what is wrong after an update."""
        for name in ("loss", "grad_norm"):
            if name in metrics and not _is_finite(metrics[name]):
                said = "not a finite number" if metrics[name] is None else f"{metrics[name]}"
                return Warned(
                    "not-finite", f"{name} is {said} in update {step}", "use a lower learning rate, or a smaller clip"
                )
        self._dead = self._dead + 1 if self._is_dead(metrics) else 0
        if self._dead < DEAD_UPDATES:
            return None
        return Warned(
            "dead",
            f"for {self._dead} updates up to {step} no group had rewards that differ, at a pass rate of at most "
            f"{HARDLY_RIGHT:g}",
            "nothing is learnt: take easier problems, more rollouts per prompt, or look at the reward",
        )

    def _is_dead(self, metrics: Mapping[str, Any]) -> bool:
        rate = metrics.get("pass_rate", metrics.get("reward"))
        if rate is None or rate > HARDLY_RIGHT or (self._groups is not None and self._groups < FEWEST_GROUPS):
            return False
        return metrics.get("zero_variance_share", 0.0) >= WITHOUT_SIGNAL or metrics.get("grad_norm") == 0.0

    def state(self) -> list[float]:
        """Return what it remembers."""
        return [float(self._dead)]

    def restore(self, state: list[float]) -> None:
        """Go on from a saved state."""
        self._dead = int(state[0])


def _is_finite(value: float | None) -> bool:
    """Whether it is a number; JSON, and so what is stored, has a null in the place of one that is not finite."""
    return value is not None and math.isfinite(value)
