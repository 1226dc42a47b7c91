"""Makes sweeps whose truth is known: sigmoids with parameters that are smooth in (n, B), or have no relation."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from planner.view import Cell, Configuration, OpenCell, ScorePoint, TrialState, TrialView, View
from tests.planner.policy.views import CELLS, trial, view

TARGET, PER_STEP, STEPS = 100.0, 1.0, 100


@dataclass(frozen=True)
class Curve:
    start: float
    asymptote: float
    middle: float  # of the target
    exponent: float
    tail: float = 1.0  # below 1 it comes in more slowly than a sigmoid

    def at(self, x: float) -> float:
        if x <= 0:
            return self.start
        gone = 1 + (2 ** (1 / self.tail) - 1) * math.exp(self.exponent * math.log(x / self.middle))
        return self.asymptote - (self.asymptote - self.start) * gone**-self.tail


def smooth(seed: int, cells: Sequence[Cell] = CELLS) -> dict[Cell, Curve]:
    """Draw quadratics in (log n, log B) for logit A and log C_mid, and one exponent."""
    rng = np.random.default_rng(seed)
    start, exponent = rng.uniform(0.15, 0.35), rng.uniform(1.2, 2.0)
    top, middle = rng.normal(0.5, 0.7), rng.normal(-1.6, 0.5)
    slopes, curvatures = rng.normal(0.0, 0.5, (2, 2)), rng.normal(-0.2, 0.3, (2, 2)) * np.array([[1.0], [0.0]])
    curves = {}
    for cell in cells:
        place = np.array([np.log2(cell[0]) - 4, np.log2(cell[1]) - 6]) / 2
        logit, log_middle = np.array([top, middle]) + slopes @ place + curvatures @ (place**2 - 1 / 3)
        curves[cell] = Curve(start, start + (1 - start) * float(expit(logit)), float(np.exp(log_middle)), exponent)
    return curves


def unrelated(seed: int, cells: Sequence[Cell] = CELLS) -> dict[Cell, Curve]:
    """Draw every asymptote and C_mid for itself."""
    rng = np.random.default_rng(seed)
    return {cell: Curve(0.2, rng.uniform(0.22, 0.97), float(np.exp(rng.uniform(-4.5, -1.5))), 1.5) for cell in cells}


def seen(curve: Curve, steps: int, *, noise: float = 0.01, seed: int = 0, every: int = 2) -> tuple[ScorePoint, ...]:
    rng = np.random.default_rng(seed)
    return tuple(
        ScorePoint(
            step,
            step * PER_STEP,
            float(np.clip(curve.at(step * PER_STEP / TARGET) + noise * rng.normal(), 0.0, 1.0)),
            noise,
        )
        for step in range(0, steps + 1, every)
    )


def along(
    number: int, cell: Cell, curve: Curve, steps: int, *, noise: float = 0.01, seed: int = 0, every: int = 2
) -> TrialView:
    """Return a paused trial of a cell that was trained so far."""
    scores = seen(curve, steps, noise=noise, seed=1000 * seed + number, every=every)
    return trial(number, TrialState.PAUSED, step=steps, cell=cell, seen=scores)


def sweep(truth: Mapping[Cell, Curve], steps: Mapping[Cell, int], *, seed: int = 0, noise: float = 0.01) -> View:
    """Return a view in which these cells have a curve, and all others are planned."""
    trials = []
    for number, (cell, curve) in enumerate(truth.items(), start=1):
        if cell in steps:
            trials.append(along(number, cell, curve, steps[cell], noise=noise, seed=seed))
        else:
            trials.append(trial(number, cell=cell))
    return view(trials, target=TARGET, seed=seed)


def open_cell(cell: Cell, steps: int = 5) -> OpenCell:
    return OpenCell(*cell, steps, PER_STEP, 0.1)


def configuration(cell: Cell) -> Configuration:
    return Configuration(*cell)
