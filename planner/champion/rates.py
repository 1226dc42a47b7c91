"""The learning rate among a configuration's axes, as octaves from the rule's."""

import math

from planner.axes import LEARNING_RATE
from planner.view import Axes, Configuration

FACTORS = (LEARNING_RATE, "learning_rate_factor", "lr_factor")  # columns of recorded tables that hold the factor
LEAST_FACTOR = 1e-2  # anything below is a learning rate itself, of which no rule is known


def rate_octaves(axes: Axes) -> float | None:
    """Return the octaves of the factor on the rule's learning rate; None where the axes name a rate without a rule."""
    for name, value in axes:
        if name in FACTORS:
            factor = float(value)
            return math.log2(factor) if factor >= LEAST_FACTOR else None
    return 0.0


def same_but_rate(one: Configuration, other: Configuration) -> bool:
    """Say whether two configurations differ in their learning rate alone."""
    return one[:2] == other[:2] and _others(one.axes) == _others(other.axes)


def _others(axes: Axes) -> Axes:
    return tuple((name, value) for name, value in axes if name not in FACTORS)
