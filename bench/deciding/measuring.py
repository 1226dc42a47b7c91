"""Turns mean curves into recorded runs: seeds that differ, a finite validation set, and points along the way."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from planner.replay.recorded import RecordedRun
from planner.view import Configuration

Vector = NDArray[np.float64]
Mean = Callable[[Vector], Vector]
BEYOND = 1.1  # of the target: a run is recorded so far, that the truth at the target has points on either side


def places(points: int, target: float) -> Vector:
    """Return the GPU-hours of a run's points, the first of them before any training."""
    return np.linspace(0.0, BEYOND * target, points + 1)


def measured(
    configuration: Configuration, seed: int, at: Vector, mean: Vector, answers: int, rng: np.random.Generator
) -> RecordedRun:
    """Return a run of which each point is a share of `answers` that were right."""
    chance = np.clip(mean, 0.0, 1.0)
    scores = rng.binomial(answers, chance) / answers
    smoothed = (scores * answers + 0.5) / (answers + 1)  # Jeffreys: no error is nought
    name = f"n{configuration.rollouts_per_prompt}-b{configuration.prompts_per_batch}-s{seed}"
    for _, value in configuration.axes:
        name += f"-{value}"
    return RecordedRun(name, configuration, seed, at, scores, np.sqrt(smoothed * (1 - smoothed) / answers))


def wandering(count: int, sd: float, rng: np.random.Generator) -> Vector:
    """Return first-order autoregressive noise that forgets within about five points."""
    keep, values = 0.8, np.zeros(count)
    if sd > 0:
        steps = rng.normal(0.0, sd, count)
        values[0] = steps[0]
        for i in range(1, count):
            values[i] = keep * values[i - 1] + math.sqrt(1 - keep * keep) * steps[i]
    return values
