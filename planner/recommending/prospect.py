"""What is believed of all configurations on a ladder of computes around the target; everything else is read off it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from budgets.errors import InputError
from planner.recommending.facts import ConfigurationFacts, Facts
from planner.sweeping.joint import Joint
from planner.view import Configuration

Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

RUNGS_PER_OCTAVE = 3
OCTAVES = (-6, 3)  # of the ladder: from 1/64 to 8 × the target
LEVEL = 0.90


@dataclass(frozen=True, eq=False)
class Prospect:
    """Draws of the mean scores: (computes, draws, configurations), the target among the computes."""

    configurations: tuple[Configuration, ...]
    facts: tuple[ConfigurationFacts, ...]
    target_gpu_hours: float
    gpu_hours: Vector
    scores: Vector

    @classmethod
    def of(cls, joint: Joint, facts: Facts, target_gpu_hours: float) -> "Prospect":
        """Ask a joint distribution for its scores along the ladder."""
        configurations = tuple(joint.configurations)
        if missing := [each for each in configurations if each not in facts]:
            raise InputError(f"no facts are given of {tuple(missing[0])}: give those of every configuration")
        if not target_gpu_hours > 0:
            raise InputError(f"a final run of {target_gpu_hours:g} GPU-hours: give more than 0")
        low, high = (octave * RUNGS_PER_OCTAVE for octave in OCTAVES)
        gpu_hours = target_gpu_hours * np.exp2(np.arange(low, high + 1) / RUNGS_PER_OCTAVE)
        gpu_hours[-low] = target_gpu_hours
        scores = np.ascontiguousarray(np.moveaxis(joint.scores(gpu_hours.tolist()), 2, 0))
        return cls(configurations, tuple(facts[each] for each in configurations), target_gpu_hours, gpu_hours, scores)

    def rung(self, octaves: float) -> int:
        """Return the index of the compute that lies so many octaves from the target."""
        return round((octaves - OCTAVES[0]) * RUNGS_PER_OCTAVE)

    def rungs(self, low: float, high: float) -> range:
        """Return the indices of the computes from so many octaves to so many, both included."""
        return range(self.rung(low), self.rung(high) + 1)

    @cached_property
    def able(self) -> Mask:
        """Which configuration can be run at each compute, (computes, configurations): it pays for a step."""
        return np.array(
            [
                [not each.failed and each.steps(float(gpu_hours)) >= 1 for each in self.facts]
                for gpu_hours in self.gpu_hours
            ]
        )

    @cached_property
    def expected(self) -> Vector:
        """The expected mean score, (computes, configurations)."""
        return np.asarray(self.scores.mean(axis=1))

    @cached_property
    def expected_best(self) -> Vector:
        """The highest expectation among those that can be run at each compute, −∞ for none."""
        return np.asarray(np.where(self.able, self.expected, -np.inf).max(axis=1))

    def best(self, rung: int) -> Vector:
        """Return the best score of each draw at one compute."""
        return np.asarray(self.scores[rung][:, self.able[rung]].max(axis=1))
