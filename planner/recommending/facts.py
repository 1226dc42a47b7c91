"""What is known of each configuration beside its curve: its price, what was seen of it, what became of its runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from budgets.errors import BudgetError, NotFoundError
from planner.view import Configuration

GO_AHEAD = 0.5  # P(within 0.02 of the best), from which on what is equivalent is as good as the best
FORGIVEN = 1e-9  # of a step: quotients of floats


@dataclass(frozen=True, slots=True)
class ConfigurationFacts:
    """A configuration's price, measured or planned, and what its runs have shown so far."""

    learning_rate: float
    recipe: str
    gpu_hours_per_step: float  # of the final run
    status: str = "proposed"
    gpu_hours_spent: float = 0.0
    reached_gpu_hours: float = 0.0  # by its longest run that has a curve; 0 without one
    seeds_seen: int = 0  # runs with a curve
    collapsed_runs: int = 0
    declining_runs: int = 0
    failed: bool = False  # every run of it has failed, so that a final of it would

    @property
    def seen(self) -> bool:
        """Whether it has a curve of its own."""
        return self.reached_gpu_hours > 0

    def steps(self, gpu_hours: float) -> int:
        """Return the whole update steps that GPU-hours pay for."""
        return math.floor(gpu_hours / self.gpu_hours_per_step + FORGIVEN)


Facts = Mapping[Configuration, ConfigurationFacts]


def alike(count: int, probability_near: float) -> str:
    """Say what so many equivalent choices mean: that each is good, or that it is not known yet which is."""
    if count == 1:
        return ""
    if probability_near < GO_AHEAD:
        return f"{'two' if count == 2 else count} cannot be told apart yet"
    return "either of two will do" if count == 2 else f"any of {count} will do"


def require_choice(facts: Facts, target_gpu_hours: float) -> None:
    """Raise unless some configuration has been seen, and one that has not failed can be afforded."""
    if not any(each.seen for each in facts.values()):
        failed = sum(each.failed for each in facts.values())
        raise NotFoundError(
            f"no recommendation: none of {len(facts)} configurations has a score after its first update ({failed} "
            "failed); give the sweep more GPU-hours, or run `rlplan retry` for the failed ones"
        )
    able = [each for each in facts.values() if not each.failed]
    if not able:
        raise NotFoundError(
            f"no recommendation: all {len(facts)} configurations have failed; `rlplan retry` runs them again"
        )
    cheapest = min(each.gpu_hours_per_step for each in able)
    if all(each.steps(target_gpu_hours) < 1 for each in able):
        raise BudgetError(
            f"{target_gpu_hours:.3g} GPU-hours do not pay for one update step of any configuration: the cheapest takes "
            f"{cheapest:.3g}"
        )
