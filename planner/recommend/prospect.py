"""What is believed of all configurations on a ladder of computes around the target, and how each stands there."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from budgets.errors import InputError
from planner.belief.draws import JointDraws, shares_of_best
from planner.curves.curve import Vector
from planner.metrics import EQUIVALENCE_MARGIN, INTERVAL_ENDS
from planner.recommend.facts import ConfigurationFacts, Facts, collapse_risks
from planner.view import Configuration

Mask = NDArray[np.bool_]

DRAWS = 2000  # that a recommendation rests on
RUNGS_PER_OCTAVE = 3
OCTAVES = (-6, 2)  # of the ladder: from 1/64 to 4 × the target, and a rung more at either end
UNTRAINED = 1e-9  # of the target


@dataclass(frozen=True, eq=False)
class Prospect:
    """Draws of the mean scores: (computes, draws, configurations), the target among the computes.

    `base` has the scores before any training, `octaves` where the ladder of computes begins and ends. Where pilots are
    `paid`, a compute is what a final run has beside the one that it goes on from, which makes it longer.
    """

    configurations: tuple[Configuration, ...]
    facts: tuple[ConfigurationFacts, ...]
    target_gpu_hours: float
    gpu_hours: Vector
    scores: Vector
    base: Vector
    octaves: tuple[int, int] = OCTAVES
    paid: float | Vector = 0.0
    unconverged: float = 0.0  # of the weight of the fit that the draws are of

    @classmethod
    def of(
        cls,
        joint: JointDraws,
        facts: Facts,
        target_gpu_hours: float,
        octaves: tuple[int, int] = OCTAVES,
        *,
        paid: bool = False,
    ) -> "Prospect":
        """Ask a joint distribution for its scores along the ladder."""
        configurations = tuple(joint.configurations)
        if not target_gpu_hours > 0:
            raise InputError(f"a final run of {target_gpu_hours:g} GPU-hours: give more than 0")
        low, high = octaves[0] * RUNGS_PER_OCTAVE - 1, octaves[1] * RUNGS_PER_OCTAVE + 1
        gpu_hours = target_gpu_hours * np.exp2(np.arange(low, high + 1) / RUNGS_PER_OCTAVE)
        gpu_hours[-low] = target_gpu_hours
        all_facts = tuple(facts[configuration] for configuration in configurations)
        reached = np.array([fact.reached_gpu_hours for fact in all_facts]) if paid else 0.0
        drawn = np.moveaxis(joint.scores([UNTRAINED * target_gpu_hours, *(fact + reached for fact in gpu_hours)]), 2, 0)
        scores = np.ascontiguousarray(drawn[1:])
        base, unconverged = drawn[0], joint.unconverged
        return cls(configurations, all_facts, target_gpu_hours, gpu_hours, scores, base, octaves, reached, unconverged)

    def rung(self, octaves: float) -> int:
        """Return the index of the compute that lies so many octaves from the target."""
        return round((octaves - self.octaves[0]) * RUNGS_PER_OCTAVE) + 1

    def lengths(self, rung: int) -> Vector:
        """Return the GPU-hours of each configuration's final run at one compute."""
        return np.broadcast_to(self.gpu_hours[rung] + self.paid, len(self.facts))

    @cached_property
    def able(self) -> Mask:
        """Which configuration can be run at each compute, (computes, configurations): it pays for a step."""
        return np.array(
            [
                [not fact.failed and fact.steps(float(gpu_hours)) >= 1 for fact in self.facts]
                for gpu_hours in self.gpu_hours
            ]
        )

    @cached_property
    def expected(self) -> Vector:
        """The expected mean score, (computes, configurations)."""
        return np.asarray(self.scores.mean(axis=1))

    @cached_property
    def risks(self) -> Vector:
        """The risk of each configuration's run to collapse."""
        return collapse_risks(self.configurations, self.facts)

    def risks_ahead(self, rung: int) -> Vector:
        """Return the risks on the part of the way to a compute that is still ahead of each one's longest run."""
        reached = np.array([fact.reached_gpu_hours for fact in self.facts])
        return np.asarray(self.risks * np.clip(1 - reached / self.lengths(rung), 0.0, 1.0))

    def ended_above(self, rung: int) -> Vector:
        """Return by how much the runs that have ended at one compute score more than expected; 0 without one."""
        ended = [fact.ended_at(length) for fact, length in zip(self.facts, self.lengths(rung).tolist(), strict=True)]
        return np.array(
            [
                0.0 if level is None else level - expected
                for level, expected in zip(ended, self.expected[rung], strict=True)
            ]
        )

    def best(self, rung: int) -> Vector:
        """Return the best score of each draw at one compute."""
        return np.asarray(self.scores[rung][:, self.able[rung]].max(axis=1))


NORMAL_PARTS = 16  # equally likely values that stand for a seed's normal deviation


@dataclass(frozen=True, eq=False, slots=True)
class Odds:
    """Figures of every configuration at one compute; those that cannot be run have no chance.

    `regret` is E[max] − E[score], which is what a choice is expected to fall short of the best in hindsight.
    """

    expected: Vector
    best: Vector  # P(best)
    within_near: Vector  # P(within 0.02 of the best)
    regret: Vector


def odds(prospect: Prospect, rung: int) -> Odds:
    """Return the figures at one compute; draws that tie, such as at a score of 1, share their chance."""
    able, scores = prospect.able[rung], prospect.scores[rung]
    best = prospect.best(rung)[:, None]
    expected = prospect.expected[rung]
    return Odds(
        expected=expected,
        best=shares_of_best(np.where(able, scores, -np.inf)),
        within_near=((scores >= best - EQUIVALENCE_MARGIN) & able).mean(axis=0),
        regret=np.maximum(0.0, best.mean() - expected),
    )


def beats(scores: Vector, one: int, other: int) -> float:
    """Return P(one configuration scores higher than another); a tie is half a win."""
    gap = scores[:, one] - scores[:, other]
    return float((gap > 0).mean() + (gap == 0).mean() / 2)


def interval(scores: Vector, seed_sd: float | Vector) -> tuple[float, float]:
    """Return the central interval of draws of a pass rate, for the score of a new run where seeds differ.

    The seed's normal deviation, one for all draws or one for each, is added as equally likely parts, so that no chance
    is needed.
    """
    if np.any(seed_sd):
        parts = ndtri((np.arange(NORMAL_PARTS) + 0.5) / NORMAL_PARTS)
        parts = np.broadcast_to(seed_sd, scores.shape)[:, None] * parts / parts.std()
        scores = np.clip(scores[:, None] + parts, 0.0, 1.0)
    low, high = np.quantile(scores, INTERVAL_ENDS)
    return float(low), float(high)
