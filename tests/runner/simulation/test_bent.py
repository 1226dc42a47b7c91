"""Curves of drawn worlds as earlier sweeps have them depend on n and B."""

import math

import numpy as np
import pytest

from planner.pooling.features import MIDDLE, CoefficientTerm, features
from planner.pooling.priors import LearntPrior
from planner.view import Configuration
from runner.simulation.drawn import Taught, bent
from runner.simulation.surfaces import Shape

CELLS = [Configuration(n, B) for n in (4, 16, 64) for B in (8, 32, 128)]
SMOOTH = features(CELLS)
SLOPE = 0.7  # of the log of the midpoint, from the middle of the axis of n to its end


def taught(weight: float) -> Taught:
    """What a source says that knows every slope for sure: only that of log C_mid along n is not 0."""
    mean = np.zeros(len(SMOOTH.terms))
    mean[SMOOTH.terms.index(CoefficientTerm(MIDDLE, ("n",)))] = SLOPE
    prior = LearntPrior("earlier", mean, 1e-12 * np.eye(len(mean)), weight)
    return Taught((1000.0,) * len(CELLS), SMOOTH, (prior,))


def shapes() -> list[Shape]:
    """Curves that end higher with B and rise later with it, by what a world of its own says."""
    return [
        Shape(base=0.3, asymptote=0.6 + 0.05 * math.log2(B) / 7, middle=50.0 * B, exponent=0.8) for _, B, _ in CELLS
    ]


def middles(found: list[Shape]) -> np.ndarray:
    return np.log([each.middle for each in found]).reshape(3, 3)


def test_slopes_are_the_sources_and_levels_the_worlds_own() -> None:
    own, found = shapes(), bent(shapes(), taught(1.0), np.random.default_rng(0))
    assert np.diff(middles(found), axis=0) == pytest.approx(SLOPE, abs=1e-4)
    assert np.diff(middles(found), axis=1) == pytest.approx(0.0, abs=1e-4)
    assert middles(found).mean() == pytest.approx(middles(own).mean(), abs=0.05)
    ends = [each.asymptote for each in found]
    assert ends == pytest.approx([ends[0]] * len(ends), abs=1e-4)
    assert [each.exponent for each in found] == pytest.approx([0.8] * len(found), abs=1e-4)


def test_what_is_not_believed_changes_nothing_and_half_of_it_half_of_the_worlds() -> None:
    assert bent(shapes(), taught(0.0), np.random.default_rng(0)) == shapes()
    changed = [bent(shapes(), taught(0.5), np.random.default_rng(seed)) != shapes() for seed in range(200)]
    assert 70 < sum(changed) < 130
