"""Curves drawn from laws as published."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from planner.curves.curve import Curve
from planner.prior.studies import OptimalGroupLaw

SIZES = (0.5e9, 1.5e9, 3e9, 7e9, 14e9, 32e9, 72e9)
INTERCEPTS = (0.0640, 0.2074, 0.3741, 0.7045, 1.0848, 1.5359, 1.8957)
K_MAX, N_0 = 0.13304, 13.78e9
EASY = OptimalGroupLaw(rise=5.67, steepness=8.84, midpoint=6.08, floor=3.08)


class Sigmoid(NamedTuple):
    R0: float
    A: float
    B: float
    C_mid: float

    def at(self, x: np.ndarray | float) -> np.ndarray:
        with np.errstate(divide="ignore"):
            gained = expit(self.B * (np.log(x) - math.log(self.C_mid)))
        return self.R0 * (1 - gained) + self.A * gained


def curve_of(law: Sigmoid, x: np.ndarray, noise: float = 0.0, seed: int = 0) -> Curve:
    y = law.at(x) + np.random.default_rng(seed).normal(0, noise, x.size)
    return Curve.of("drawn", x, y)


def size_scores(size: float, x: np.ndarray) -> np.ndarray:
    exponent = K_MAX / (1 + N_0 / size)
    return 1 - 10 ** (INTERCEPTS[SIZES.index(size)] - exponent * np.log10(x))


def size_curve(size: float, noise: float, points: int = 105) -> Curve:
    """105 evaluations; compute 6·N·tokens; noise of 0.01 in log10 L is that of 500 problems at three repeats."""
    x = np.geomspace(3e7 * size, 3e9 * size, 105)[:points]
    factors = 10 ** np.random.default_rng(int(size / 1e8)).normal(0, noise, x.size)
    return Curve.of(f"{size:g}", x, np.maximum(0, 1 - (1 - size_scores(size, x)) * factors))


def group_curve(group: int, law: OptimalGroupLaw, noise: float = 0.0) -> Curve:
    """A run whose score falls short of the frontier with its distance from n* in octaves."""
    compute = np.geomspace(1e5, 1e7, 80)
    octaves = np.log2(group) - np.log2([law(value) for value in compute])
    random = np.random.default_rng(group)
    return Curve.of(f"n={group}", compute, frontier_score(compute) - 0.004 * octaves**2 + random.normal(0, noise, 80))


def frontier_score(compute: np.ndarray) -> np.ndarray:
    return 0.45 + 0.3 / (1 + (1.06e6 / compute) ** 0.75)


PAIRS = np.array([(updates, size) for updates in (1, 2, 5, 10, 15) for size in (1e5, 5e5, 1e6, 5e6, 2e7)])
MEDIUM = {"D_min": 371_900.0, "a": 1.261, "alpha": 1.010, "b": 633e3, "beta": 0.890}


def steps_needed(noise: float = 0.0) -> np.ndarray:
    """The environment steps of the medium control tasks at each pair of updates and size."""
    updates, sizes = PAIRS.T
    terms = (MEDIUM["a"] / updates) ** MEDIUM["alpha"] + (MEDIUM["b"] / sizes) ** MEDIUM["beta"]
    return MEDIUM["D_min"] * (1 + terms) * np.exp(np.random.default_rng(3).normal(0, noise, len(PAIRS)))
