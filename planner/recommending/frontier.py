"""What is best at which spend: the frontier around the target, and where more money stops to matter."""

from dataclasses import dataclass, field

import numpy as np

from planner.recommending.choice import Choice, Choices
from planner.recommending.prospect import LEVEL, Prospect
from planner.recommending.trend import Trend, trend
from planner.sweeping.chances import NEAR

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

    points: tuple[FrontierPoint, ...] = field(repr=False)
    rollouts_per_prompt: Trend
    rollouts_per_step: Trend


def frontier(choices: Choices) -> Frontier:
    """Return the frontier; computes that pay for no step of anything are left out."""
    prospect = choices.prospect
    rungs = prospect.rungs(*OCTAVES)
    sizes = [(each.rollouts_per_prompt, each.prompts_per_batch) for each in prospect.configurations]
    return Frontier(
        points=tuple(_point(choices, prospect, rung) for rung in rungs),
        rollouts_per_prompt=trend(prospect, rungs, "n", [n for n, _ in sizes]),
        rollouts_per_step=trend(prospect, rungs, "n·B", [n * B for n, B in sizes]),
    )


def _point(choices: Choices, prospect: Prospect, rung: int) -> FrontierPoint:
    best = prospect.best(rung)
    low, high = np.quantile(best, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return FrontierPoint(
        float(prospect.gpu_hours[rung]), choices.choice(rung), float(best.mean()), float(low), float(high)
    )


PARETO_OCTAVES = (-6, 2)  # from 1/64 to 4 × the target


@dataclass(frozen=True, slots=True)
class Pareto:
    """Choices along the spend, each expected to score higher than every cheaper one.

    `enough` is the cheapest whose expected score lies within 0.02 of the one at the target, None when that is the
    target itself.
    """

    points: tuple[Choice, ...] = field(repr=False)
    enough: Choice | None


def pareto(choices: Choices) -> Pareto:
    """Return what no cheaper choice is expected to match."""
    prospect = choices.prospect
    target = choices.choice(prospect.rung(0))
    points: list[Choice] = []
    enough = None
    for rung in prospect.rungs(*PARETO_OCTAVES):
        choice = choices.choice(rung)
        if not points or choice.expected_score > points[-1].expected_score:
            points.append(choice)
        if enough is None and rung < prospect.rung(0) and choice.expected_score >= target.expected_score - NEAR:
            enough = choice
    return Pareto(tuple(points), enough)
