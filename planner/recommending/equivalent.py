"""Which configurations the evidence cannot tell apart, and which of those to take.

Two questions with two bars. *Equivalent* is what should be said: an expected difference within 0.02, which is seed
noise in the best study there is, or odds closer than 3 to 1. What may be *given up* for a cheaper or steadier choice
is far less, for it is paid in expected score every time: TIE.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from planner.recommending.facts import ConfigurationFacts
from planner.recommending.prospect import Prospect, Vector, beats
from planner.sweeping.chances import NEAR
from planner.view import Configuration

TOSS_UP = 0.25  # P(it beats the best), from which on the two cannot be told apart
TIE = 0.005  # in expected score


@dataclass(frozen=True, slots=True)
class Settled:
    """The configuration to take at one compute, by its index, and why it and not one that is as good."""

    row: int
    equivalent: tuple[int, ...]  # to the highest expectation, which is among them; the highest first
    reason: str


@dataclass(frozen=True, slots=True)
class _Criterion:
    """What is better among equals: the lower value, differences up to `tolerance` counting as none."""

    values: Vector
    tolerance: float
    reason: Callable[[int, int], str]  # of the kept and the first one that was given up


def equivalents(prospect: Prospect, rung: int) -> tuple[int, ...]:
    """Return what cannot be told from the highest expectation at one compute, in the order of expectation."""
    expected, scores = prospect.expected[rung], prospect.scores[rung]
    order = _by_expectation(prospect, rung)
    best = order[0]
    return tuple(
        row
        for row in order
        if row == best or expected[best] - expected[row] <= NEAR or beats(scores, row, best) >= TOSS_UP
    )


def settle(prospect: Prospect, rung: int) -> Settled:
    """Take, of those that are as good in expectation, the one left by criterion after criterion."""
    expected = prospect.expected[rung]
    alike = equivalents(prospect, rung)
    best = alike[0]
    tied = tuple(row for row in _by_expectation(prospect, rung) if expected[best] - expected[row] <= TIE)
    left, reason = list(tied), "none other is expected to score as high"
    for criterion in _criteria(prospect, rung, tied) if len(tied) > 1 else ():
        bar = min(criterion.values[row] for row in left) + criterion.tolerance
        kept = [row for row in left if criterion.values[row] <= bar]
        if len(kept) < len(left):
            given_up = next(row for row in left if row not in kept)
            reason = f"among {len(tied)} within {TIE:g} in expectation {criterion.reason(kept[0], given_up)}"
        left = kept
        if len(left) == 1:
            break
    return Settled(left[0], alike, reason)


def largest_shortfall(prospect: Prospect, rung: int) -> Vector:
    """Return how far each falls short of the best expectation, at most, from ½ to 2 × a compute."""
    octave = prospect.rung(1) - prospect.rung(0)
    around = slice(max(0, rung - octave), rung + octave + 1)
    short = prospect.expected_best[around, None] - prospect.expected[around]
    can = prospect.able[around]
    lost = np.where(np.isfinite(short) & can, short, 0.0)  # too small a budget for a step is no misjudgement
    return np.asarray(lost.max(axis=0))


def gpu_hours_to_reach(prospect: Prospect, score: float) -> Vector:
    """Return the GPU-hours at which each one's expected score first reaches a score, ∞ where it never does."""
    log_hours = np.log(prospect.gpu_hours)
    found = np.full(len(prospect.configurations), np.inf)
    for row, curve in enumerate(prospect.expected.T):
        above = np.flatnonzero(curve >= score)
        if above.size:
            at = int(above[0])
            share = 1.0 if at == 0 else (score - curve[at - 1]) / (curve[at] - curve[at - 1])
            found[row] = np.exp(log_hours[at] if at == 0 else log_hours[at - 1] + share * np.diff(log_hours)[at - 1])
    return found


def _by_expectation(prospect: Prospect, rung: int) -> list[int]:
    """Return those that can be run, the highest expectation first; equals in the order of their planning."""
    expected = prospect.expected[rung]
    return [int(row) for row in np.argsort(-expected, kind="stable") if prospect.able[rung, row]]


def _criteria(prospect: Prospect, rung: int, tied: tuple[int, ...]) -> list[_Criterion]:
    unseen = np.array([0.0 if each.seen else 1.0 for each in prospect.facts])
    risk = collapse_risks(prospect.configurations, prospect.facts)
    short = largest_shortfall(prospect, rung)
    enough = float(prospect.expected[rung, tied[0]]) - NEAR
    hours = gpu_hours_to_reach(prospect, enough)
    batch = np.log2([each.prompts_per_batch for each in prospect.configurations])
    return [
        _Criterion(unseen, 0.0, lambda kept, other: "it has been seen in a pilot of its own"),
        _Criterion(
            risk,
            0.05,
            lambda kept, other: f"it is the steadier: its risk to collapse is {risk[kept]:.2f}, not {risk[other]:.2f}",
        ),
        _Criterion(
            short,
            TIE / 2,
            lambda kept, other: (
                f"it bears a misjudged budget best: from ½ to 2 × it falls {short[kept]:.3f} short of the best at "
                f"most, not {short[other]:.3f}"
            ),
        ),
        _Criterion(
            np.log(hours),
            0.1,
            lambda kept, other: (
                f"it is the cheapest: {enough:.3f} is reached after {hours[kept]:.3g} GPU-hours, not {hours[other]:.3g}"
            ),
        ),
        _Criterion(-batch, 0.0, lambda kept, other: "it has the larger B, which makes steadier updates"),
    ]


PRIOR_RISK = 0.02  # of a run of which nothing near is known
PRIOR_RUNS = 2.0  # how many runs that counts as
REACH = 1.0  # octaves of n and of B within which runs tell of each other
OWN = 3.0  # how much a run of the configuration itself counts
OTHER_AXES = 0.5  # how much a run with another recipe, model or learning rate counts


def collapse_risks(configurations: Sequence[Configuration], facts: Sequence[ConfigurationFacts]) -> Vector:
    """Return for each configuration the share of runs near it that collapsed; a run that declines counts half.

    A run d octaves away has the weight exp(−d²/2), its own run more, and a few imagined runs stand for nothing known.
    """
    place = np.log2([(each.rollouts_per_prompt, each.prompts_per_batch) for each in configurations])
    distance = ((place[:, None, :] - place[None, :, :]) ** 2).sum(axis=2)
    same = np.array([[one.axes == other.axes for other in configurations] for one in configurations])
    weight = np.exp(-distance / (2 * REACH**2)) * np.where(same, 1.0, OTHER_AXES)
    np.fill_diagonal(weight, OWN)
    runs = np.array([each.seeds_seen for each in facts], dtype=float)
    bad = np.array([each.collapsed_runs + each.declining_runs / 2 for each in facts])
    return np.asarray((weight @ bad + PRIOR_RUNS * PRIOR_RISK) / (weight @ runs + PRIOR_RUNS))


def octaves_between(one: Configuration, other: Configuration) -> float:
    """Return how far two configurations lie apart in n and B."""
    return math.hypot(
        math.log2(one.rollouts_per_prompt / other.rollouts_per_prompt),
        math.log2(one.prompts_per_batch / other.prompts_per_batch),
    )
