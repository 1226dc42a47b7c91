"""The iso-compute frontier around the target: at each compute the best allocation, and how good the best can be."""

from dataclasses import dataclass

import numpy as np

from planner.recommending.choice import Choice, Chooser
from planner.recommending.prospect import LEVEL, Prospect
from planner.recommending.trend import Trend, trend

OCTAVES = (-2, 2)  # from ¼ to 4 × the target


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One compute: what to take, and the band in which the best mean score lies whichever configuration it is."""

    gpu_hours: float
    choice: Choice
    best_expected: float
    best_low: float
    best_high: float


@dataclass(frozen=True, slots=True)
class Frontier:
    """The frontier for budgets around the user's, and how its n and its n·B move."""

    points: tuple[FrontierPoint, ...]
    rollouts_per_prompt: Trend
    rollouts_per_step: Trend


def frontier(chooser: Chooser) -> Frontier:
    """Return the frontier; computes that pay for no step of anything are left out."""
    prospect = chooser.prospect
    rungs = [rung for rung in prospect.rungs(*OCTAVES) if prospect.able[rung].any()]
    sizes = [(each.rollouts_per_prompt, each.prompts_per_batch) for each in prospect.configurations]
    return Frontier(
        points=tuple(_point(chooser, prospect, rung) for rung in rungs),
        rollouts_per_prompt=trend(prospect, rungs, "n", [n for n, _ in sizes]),
        rollouts_per_step=trend(prospect, rungs, "n·B", [n * B for n, B in sizes]),
    )


def _point(chooser: Chooser, prospect: Prospect, rung: int) -> FrontierPoint:
    best = prospect.best(rung)
    low, high = np.quantile(best, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return FrontierPoint(
        float(prospect.gpu_hours[rung]), chooser.choice(rung), float(best.mean()), float(low), float(high)
    )
