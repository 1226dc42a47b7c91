"""Curves drawn from laws as published."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from planner.curves.curve import Curve
from planner.prior.studies import OptimalGroupLaw

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


def group_curve(group: int, law: OptimalGroupLaw, noise: float = 0.0) -> Curve:
    """A run whose score falls short of the frontier with its distance from n* in octaves."""
    compute = np.geomspace(1e5, 1e7, 80)
    octaves = np.log2(group) - np.log2([law(value) for value in compute])
    random = np.random.default_rng(group)
    return Curve.of(f"n={group}", compute, frontier_score(compute) - 0.004 * octaves**2 + random.normal(0, noise, 80))


def frontier_score(compute: np.ndarray) -> np.ndarray:
    return 0.45 + 0.3 / (1 + (1.06e6 / compute) ** 0.75)
