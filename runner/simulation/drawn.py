"""Runs of a plan's cells on a surface that is drawn: what a sweep might meet, before a GPU-hour is spent.

Where the plan lies within the published studies its rollouts are those of the surface. Elsewhere nothing is known of
its compute: the surface is then moved so that the middle of the plan's grid lies where the studies' grid has its own,
and the final run somewhere between the first rise and saturation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

import numpy as np

from planner.curves.curve import Vector
from planner.replaying.recorded import Recorded, RecordedRun
from planner.view import Configuration
from runner.ports.simulation import Pathologies, SimulationChoice
from runner.simulation.chance import log_uniform, mixed
from runner.simulation.surfaces import Shape, Surface

# What the public runs that we have read show now and then; the rates themselves are an assumption.
MODERATE: Final = Pathologies(crossing=0.15, late_start=0.05, second_rise=0.1, slide=0.1, collapse=0.02)
STUDIED_OCTAVES: Final = 6.0  # log2, the middle of the n and of the B that were studied
INTERESTING: Final = (2e5, 1e7)  # rollouts: from the midpoint of small groups to the saturation of large ones
FINE_POINTS, MOST_POINTS = 100, 160  # of a run; beyond the former they lie farther and farther apart
WIDENING: Final = 1.03


@dataclass(frozen=True, slots=True)
class DrawnCell:
    """One (n, B) as a plan prices it."""

    rollouts_per_prompt: int
    prompts_per_batch: int
    gpu_hours_per_step: float
    start_up_gpu_hours: float
    steps_between_scores: int

    @property
    def configuration(self) -> Configuration:
        """(n, B) without further axes."""
        return Configuration(self.rollouts_per_prompt, self.prompts_per_batch)

    def rollouts(self, gpu_hours: float) -> float:
        """Return the rollouts that so many GPU-hours of training make."""
        return gpu_hours / self.gpu_hours_per_step * self.rollouts_per_prompt * self.prompts_per_batch

    def trained(self, gpu_hours: float) -> float:
        """Return what a start-up leaves of a final run's GPU-hours."""
        return max(0.0, gpu_hours - self.start_up_gpu_hours)


@dataclass(frozen=True)
class Setting:
    """What all worlds of a plan have in common."""

    cells: Sequence[DrawnCell]
    difficulties: Sequence[Literal["easy", "hard"]]  # that the worlds have in turn
    answers: int  # behind each score
    longest_pilot: float  # GPU-hours up to which scores can matter
    longest_final: float
    studied: bool  # whether the published compute is the plan's
    pathologies: Pathologies = field(default_factory=lambda: MODERATE)

    @property
    def centre(self) -> tuple[float, float]:
        """Mean log2 of n and of B."""
        octaves = np.log2([(cell.rollouts_per_prompt, cell.prompts_per_batch) for cell in self.cells])
        n, B = octaves.mean(axis=0).tolist()
        return n, B


class DrawnWorld:
    """One surface with the plan's cells on it; equal arguments make equal worlds."""

    def __init__(self, setting: Setting, seed: int, number: int) -> None:
        """Draw the surface and, outside of what was studied, where on it the plan lies."""
        key = mixed(seed, number)
        self._setting, self._key = setting, key
        choice = SimulationChoice(
            seed=key % 2**31,
            difficulty=setting.difficulties[number % len(setting.difficulties)],
            pathologies=setting.pathologies,
        )
        self._surface = Surface(choice)
        self._moved = (0, 0)
        self._scale = 1.0
        if not setting.studied:
            n, B = setting.centre
            self._moved = round(STUDIED_OCTAVES - n), round(STUDIED_OCTAVES - B)
            final = np.median([cell.rollouts(cell.trained(setting.longest_final)) for cell in setting.cells])
            self._scale = log_uniform(*INTERESTING, key, 41) / max(1.0, float(final))

    def truth(self, gpu_hours: float) -> dict[Configuration, float]:
        """Return the mean score of each cell, over its seeds, after a final run of so many GPU-hours."""
        return {
            cell.configuration: self._surface.cell(*self._place(cell)).score(
                cell.rollouts(cell.trained(gpu_hours)) * self._scale
            )
            for cell in self._setting.cells
        }

    @cached_property
    def recorded(self) -> Recorded:
        """One run of each cell, with the scores that validations would have measured."""
        return Recorded(tuple(self._run(cell) for cell in self._setting.cells))

    def _place(self, cell: DrawnCell) -> tuple[int, int]:
        """Return n and B where the surface has what stands for the cell."""
        n, B = (
            max(least, round(value * 2.0**octaves))
            for value, octaves, least in zip(cell.configuration[:2], self._moved, (2, 1), strict=True)
        )
        return n, B

    def _run(self, cell: DrawnCell) -> RecordedRun:
        n, B = cell.configuration[:2]
        shape: Shape = self._surface.run(*self._place(cell), seed=0)
        hours = self._hours(cell)
        means = np.array([shape.score(cell.rollouts(hour) * self._scale) for hour in hours.tolist()])
        answers = self._setting.answers
        scores = np.random.default_rng([self._key, n, B]).binomial(answers, means) / answers
        errors = np.sqrt(np.maximum(scores * (1 - scores), 0.25 / answers) / answers)
        return RecordedRun(f"n{n}-B{B}", cell.configuration, 0, hours, scores, errors)

    def _hours(self, cell: DrawnCell) -> Vector:
        """Return the GPU-hours of training after which the run is scored: less often later on, and when it is over."""
        setting = self._setting
        spacing = cell.gpu_hours_per_step * cell.steps_between_scores
        gaps = spacing * np.maximum(1, WIDENING ** (np.arange(MOST_POINTS) - FINE_POINTS)).round()
        hours = np.concatenate([[0.0], np.cumsum(gaps)])
        last = max(cell.trained(setting.longest_final), math.ulp(0.0))
        return np.append(hours[hours <= min(setting.longest_pilot, (1 - 1e-6) * last)], last)
