"""Recorded runs of many configurations, and what each is worth at the target."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Vector
from planner.view import Configuration

AROUND = 0.1  # share of the target within which points count as being at it
ROUNDING = 1e-9  # relative; a point at 0.9 T counts though 0.9 is no binary number


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """One run: its scores over its own GPU-hours, which grow."""

    name: str
    configuration: Configuration
    seed: int
    gpu_hours: Vector
    scores: Vector
    standard_errors: Vector | None = None

    def __post_init__(self) -> None:
        """Refuse what is no curve; whoever reads a file says more exactly where."""
        if not self.gpu_hours.size or self.gpu_hours.shape != self.scores.shape:
            raise InputError(
                f"run '{self.name}' has {self.gpu_hours.size} GPU-hours and {self.scores.size} scores: a score belongs "
                "to each, and there is at least one"
            )
        if not (np.isfinite(self.gpu_hours).all() and np.isfinite(self.scores).all() and self.gpu_hours[0] >= 0):
            raise InputError(f"run '{self.name}' has GPU-hours or scores that are no numbers, or GPU-hours below 0")
        if (np.diff(self.gpu_hours) <= 0).any():
            raise InputError(f"run '{self.name}': gpu_hours does not grow from one score to the next")

    @property
    def length(self) -> float:
        """GPU-hours of its last score."""
        return float(self.gpu_hours[-1])

    def score_near(self, target: float) -> float:
        """Return the mean of the scores at 0.9 to 1.1 times the target, or between its neighbours where there are none.

        A run that ends before the target is worth what its last tenth is.
        """
        if self.length < target * (1 - ROUNDING):
            return float(self.scores[self.gpu_hours >= (1 - AROUND) * self.length * (1 - ROUNDING)].mean())
        away = np.abs(self.gpu_hours - target)
        near = away <= AROUND * target * (1 + ROUNDING)
        if not near.any():
            return float(np.interp(target, self.gpu_hours, self.scores))
        return float(self.scores[near].mean())


@dataclass(frozen=True, eq=False)
class Recorded:
    """Runs of several configurations, several of which may have the same but for their seed."""

    runs: tuple[RecordedRun, ...]

    def __post_init__(self) -> None:
        """Refuse nothing at all."""
        if not self.runs:
            raise InputError("no runs are recorded: give at least one for each of two configurations")

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """Each once, ordered by n, B and further axes."""
        return tuple(sorted({run.configuration for run in self.runs}, key=order_of))

    @cached_property
    def length(self) -> float:
        """GPU-hours of the longest run."""
        return max(run.length for run in self.runs)

    def truth(self, target: float) -> dict[Configuration, float]:
        """Return what each configuration scores at the target: the mean over its runs of their local means there."""
        return self._means(lambda run: run.score_near(target))

    def full_cost(self, target: float) -> float:
        """Return the GPU-hours of one run of each configuration up to the target, or to its end where it ends before.

        Of several seeds the mean counts.
        """
        return sum(self._means(lambda run: min(run.length, target)).values())

    def _means(self, value: Callable[[RecordedRun], float]) -> dict[Configuration, float]:
        """Return the mean over the runs of each configuration."""
        values: dict[Configuration, list[float]] = {configuration: [] for configuration in self.configurations}
        for run in self.runs:
            values[run.configuration].append(value(run))
        return {configuration: float(np.mean(of_runs)) for configuration, of_runs in values.items()}

    def in_order(self, seed: int) -> list[RecordedRun]:
        """Return all runs in an order that is drawn: one of every configuration, then a second of each, and so on."""
        drawn = [self.runs[number] for number in np.random.default_rng(seed).permutation(len(self.runs))]
        had: Counter[Configuration] = Counter()
        rounds = []
        for run in drawn:
            had[run.configuration] += 1
            rounds.append(had[run.configuration])
        return [drawn[place] for place in np.argsort(rounds, kind="stable")]


def order_of(configuration: Configuration) -> tuple[int, int, tuple[tuple[str, bool, str | float], ...]]:
    """Return what configurations are sorted by; of an axis, numbers come before words."""
    axes = tuple((name, isinstance(value, str), value) for name, value in configuration.axes)
    return configuration.rollouts_per_prompt, configuration.prompts_per_batch, axes
