"""What came of a preview: regret, spend and time at each pilot fraction, with standard errors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from planner.view import Configuration

NEAR: Final = 0.02  # differences within it are seed noise in the best study there is


@dataclass(frozen=True, slots=True)
class Outcome:
    """One world at one pilot fraction."""

    chosen: Configuration
    score: float  # of the chosen one, at what its final run has
    best: float  # of all candidates, there
    gpu_hours_spent: float
    wall_hours: float

    @property
    def regret(self) -> float:
        """How far the choice falls short."""
        return self.best - self.score


@dataclass(frozen=True, slots=True)
class Without:
    """One world in which the whole budget goes into a final run, and no pilot says which."""

    first_ranked: float
    random: float
    best: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its standard error; of a single draw the error is not known."""

    mean: float
    standard_error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Estimate":
        """Return the mean of independent draws."""
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
        return cls(fmean(values), error)


@dataclass(frozen=True, slots=True)
class FractionSummary:
    """What is to be expected at one pilot fraction."""

    fraction: float
    pilot_gpu_hours: float
    final_gpu_hours: float
    spent: Estimate
    pilot_wall_hours: Estimate
    final_wall_hours: float
    score: Estimate
    regret: Estimate
    near_best: Estimate
    gain_over_first_ranked: Estimate


@dataclass(frozen=True)
class Preview:
    """All worlds at all fractions."""

    plan: str
    policy: str
    seed: int
    budget_gpu_hours: float
    workers: int
    gpus_per_trial: int
    pilot_gpu_hours: dict[float, float]  # by fraction
    outcomes: dict[float, tuple[Outcome, ...]]  # by fraction
    without: tuple[Without, ...]
    first_ranked: Configuration
    assumptions: tuple[str, ...]

    @property
    def draws(self) -> int:
        """How many worlds were drawn."""
        return len(self.without)

    @property
    def summaries(self) -> tuple[FractionSummary, ...]:
        """The fractions in their order."""
        return tuple(self._summary(fraction) for fraction in sorted(self.outcomes))

    @property
    def best_fraction(self) -> float:
        """The fraction with the highest expected score of the final run; the smallest of equals."""
        return max(self.summaries, key=lambda summary: summary.score.mean).fraction

    @property
    def as_good(self) -> tuple[float, ...]:
        """The other fractions whose expected score is within two standard errors of the best one's, world by world."""
        best = self.outcomes[self.best_fraction]
        return tuple(
            fraction
            for fraction, outcomes in sorted(self.outcomes.items())
            if fraction != self.best_fraction
            and _alike([a.score - b.score for a, b in zip(best, outcomes, strict=True)])
        )

    def _summary(self, fraction: float) -> FractionSummary:
        outcomes, pilot = self.outcomes[fraction], self.pilot_gpu_hours[fraction]
        final = self.budget_gpu_hours - pilot
        pairs = zip(outcomes, self.without, strict=True)
        return FractionSummary(
            fraction=fraction,
            pilot_gpu_hours=pilot,
            final_gpu_hours=final,
            spent=Estimate.of([one.gpu_hours_spent for one in outcomes]),
            pilot_wall_hours=Estimate.of([one.wall_hours for one in outcomes]),
            final_wall_hours=final / self.gpus_per_trial,
            score=Estimate.of([one.score for one in outcomes]),
            regret=Estimate.of([one.regret for one in outcomes]),
            near_best=Estimate.of([float(one.regret <= NEAR) for one in outcomes]),
            gain_over_first_ranked=Estimate.of([one.score - none.first_ranked for one, none in pairs]),
        )


def _alike(differences: Sequence[float]) -> bool:
    estimate = Estimate.of(differences)
    return estimate.standard_error is None or abs(estimate.mean) <= 2 * estimate.standard_error
