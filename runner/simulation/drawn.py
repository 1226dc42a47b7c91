"""Runs of a plan's cells in a world that is drawn from its prior: what a sweep might meet before a GPU-hour is spent.

One of the prior's draws is a world: it has a score for every cell at every length. They are played by their weights,
and cells and runs depart from their curves as real ones do.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final
from zlib import crc32

import numpy as np

from planner.axes import as_text, suffix
from planner.prior.draws import Places, Weights
from planner.prior.laws import MOST_GAIN
from planner.prior.studies import Values
from planner.replay.recorded import Recorded, RecordedRun
from planner.view import Axes, Configuration
from runner.ports.trial import Pathologies, SimulationChoice
from runner.simulation.surfaces import Shape, departed, mixed, of_one_run, uniform

EXPONENTS: Final = (0.3, 3.0)
# What the public runs that we have read show now and then; the rates themselves are an assumption.
MODERATE: Final = Pathologies(crossing=0.15, late_start=0.05, second_rise=0.1, slide=0.1, collapse=0.02)
GOLDEN: Final = (math.sqrt(5) - 1) / 2  # draws that are taken in these steps are spread over the studies evenly
FINE_POINTS, MOST_POINTS = 100, 160  # of a run; beyond the former they lie farther and farther apart
WIDENING: Final = 1.03
APART: Final = 4  # times as many rollouts between the three scores that a curve is read through
FARTHEST_ASYMPTOTE: Final = 3.0  # times the gain at the last of the three


@dataclass(frozen=True, slots=True)
class DrawnCell:
    """One (n, B) as a plan prices it, with its scores in each draw of the prior."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    gpu_hours_per_step: float
    start_up_gpu_hours: float
    steps_between_scores: int
    most_steps: int  # after which more passes over the prompts are expected to do harm
    base: float  # score before the first update
    scores: Values = field(repr=False)  # (3, draws): after a 16th, a quarter and all of `most_steps`
    slower: float = 1.0  # times as many rollouts for the same score
    axes: Axes = ()

    def curve(self, draw: int) -> Shape:
        """Return how its score rises with the rollouts in one draw."""
        rollouts = self.slower * self.most_steps * self.rollouts_per_prompt * self.prompts_per_batch
        return curve_through(self.base, rollouts, self.scores[:, draw].tolist())

    @property
    def configuration(self) -> Configuration:
        """What tells it from all others."""
        return Configuration(self.rollouts_per_prompt, self.prompts_per_batch, self.axes)

    def rollouts(self, gpu_hours: float) -> float:
        """Return the rollouts that so many GPU-hours of training make, as far as a run is expected to gain by them."""
        steps = min(gpu_hours / self.gpu_hours_per_step, self.most_steps)
        return steps * self.rollouts_per_prompt * self.prompts_per_batch

    def trained(self, gpu_hours: float) -> float:
        """Return what a start-up leaves of a final run's GPU-hours."""
        return max(0.0, gpu_hours - self.start_up_gpu_hours)


@dataclass(frozen=True)
class Setting:
    """What all worlds of a plan have in common."""

    cells: Sequence[DrawnCell]
    weights: Weights  # of the prior's draws
    study: Places  # of each
    answers: int  # behind each score
    longest_pilot: float  # GPU-hours up to which scores can matter
    longest_final: float
    pathologies: Pathologies = field(default_factory=lambda: MODERATE)


def curve_through(base: float, rollouts: float, scores: Sequence[float]) -> Shape:
    """Return the sigmoid through the last of three scores, at a 16th, a quarter and all of so many rollouts.

    With u = 1 / gain = α + β C^-b, the differences of the three are as 4^b; b is kept within bounds.
    """
    first, second, last = (max(score - base, 1e-6) for score in scores)
    second = min(second, last * 0.999)
    first = min(first, second * 0.999)
    u1, u2, u3 = 1 / first, 1 / second, 1 / last
    low, high = EXPONENTS
    exponent = min(high, max(low, math.log((u1 - u2) / (u2 - u3)) / math.log(APART)))
    beta = (u2 - u3) / (APART**exponent - 1)
    alpha = max(u3 - beta, u3 / FARTHEST_ASYMPTOTE, 1 / max(last, MOST_GAIN * (1 - base)))
    middle = (max(u3 - alpha, 1e-9 * u3) / alpha) ** (1 / exponent)
    return Shape(base=base, asymptote=base + 1 / alpha, middle=rollouts * middle, exponent=exponent)


class DrawnWorld:
    """One world with the plan's cells in it; equal arguments make equal worlds."""

    def __init__(self, setting: Setting, seed: int, number: int) -> None:
        """Take a draw by its weight, and have its cells depart from their curves."""
        self._setting, self._key = setting, mixed(seed, number)
        place = (uniform(seed, 40) + number * GOLDEN) % 1.0
        ends = np.cumsum(setting.weights) / setting.weights.sum()
        draw = min(int(np.searchsorted(ends, place, side="right")), len(ends) - 1)
        curves = [cell.curve(draw) for cell in setting.cells]
        self._shapes = {
            cell.configuration: departed(curve, setting.pathologies, self._key_of(cell))
            for cell, curve in zip(setting.cells, curves, strict=True)
        }

    def truth(self, gpu_hours: float) -> dict[Configuration, float]:
        """Return the mean score of each cell, over its seeds, after a final run of so many GPU-hours."""
        return {
            cell.configuration: self._shapes[cell.configuration].score(cell.rollouts(cell.trained(gpu_hours)))
            for cell in self._setting.cells
        }

    @cached_property
    def recorded(self) -> Recorded:
        """One run of each cell, with the scores that validations would have measured."""
        return Recorded(tuple(self._run(cell) for cell in self._setting.cells))

    def _key_of(self, cell: DrawnCell) -> int:
        key = mixed(self._key, cell.rollouts_per_prompt, cell.prompts_per_batch)
        return mixed(key, crc32(as_text(cell.axes).encode())) if cell.axes else key

    def _run(self, cell: DrawnCell) -> RecordedRun:
        n, B, axes = cell.configuration
        noise = SimulationChoice().score_noise
        shape = of_one_run(
            self._shapes[cell.configuration], noise, self._setting.pathologies, mixed(self._key_of(cell), 0)
        )
        # The GPU-hours after which the run is scored: less often later on, and when it is over.
        spacing = cell.gpu_hours_per_step * cell.steps_between_scores
        gaps = spacing * np.maximum(1, WIDENING ** (np.arange(MOST_POINTS) - FINE_POINTS)).round()
        hours = np.concatenate([[0.0], np.cumsum(gaps)])
        last = max(cell.trained(self._setting.longest_final), math.ulp(0.0))
        hours = np.append(hours[hours <= min(self._setting.longest_pilot, (1 - 1e-6) * last)], last)
        means = np.array([shape.score(cell.rollouts(hour)) for hour in hours.tolist()])
        answers = self._setting.answers
        scores = np.random.default_rng(self._key_of(cell)).binomial(answers, means) / answers
        errors = np.sqrt(np.maximum(scores * (1 - scores), 0.25 / answers) / answers)
        return RecordedRun(f"n{n}-B{B}{suffix(axes)}", cell.configuration, 0, hours, scores, errors)
