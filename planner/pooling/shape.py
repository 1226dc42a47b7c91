"""The form of a curve: R0 + (A − R0)·g(C), 1 − g = (1 + (2^(1/k) − 1)·(C / C_mid)^B)^−k, Burr's distribution.

With k = 1 it is the sigmoid. From that all curves depart alike, linearly in log compute between a few knots.
"""

import numpy as np
from scipy.special import expit

from planner.curves.curve import Vector
from planner.pooling.points import clock

TAIL = 0.7  # k; runs of AllocBench come in more slowly than they rose, as with 0.5, and others as sigmoids do
STEEPEST = 3.0  # |log B|
FARTHEST_RISE = 200.0  # |z| beyond which a rise has not begun, or is over
KNOTS = 4  # between which the common departure is linear in log compute


def remaining_gain(z: Vector) -> Vector:
    """Return what is left of the gain, 1 − g, in the place of `z` = B·log(C / C_mid); a half at 0."""
    np.clip(z, -FARTHEST_RISE, FARTHEST_RISE, out=z)
    np.exp(z, out=z)
    z *= 2 ** (1 / TAIL) - 1
    z += 1
    return np.power(z, -TAIL, out=z)


def sigmoid(local: Vector, start: Vector, log_x: Vector) -> tuple[Vector, Vector, Vector, Vector]:
    """Return the score, 1 − g, A and B; the last axis of `local` is taken away."""
    top = start + (1 - start) * expit(local[..., 0])
    steep = np.exp(np.clip(local[..., 2], -STEEPEST, STEEPEST))
    missing = remaining_gain(steep * (log_x - local[..., 1]))
    return top - (top - start) * missing, missing, top, steep


def common_steps(x: Vector) -> Vector:
    """Return how much of each step of the common departure has been taken by a compute, on a last axis."""
    step = float(clock(np.array(1.0))) / KNOTS
    return np.asarray(np.clip(clock(x)[..., None] / step - np.arange(KNOTS), 0.0, 1.0))
