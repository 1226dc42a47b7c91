import numpy as np
import pytest

from planner.curves.curve import Curve
from planner.curves.fitting import fit_curves
from planner.curves.mixtures import Mixtures
from planner.integrations.stopping import IndependentForecasts, probability_best


def curve(name: str, asymptote: float, *, points: int = 20, seed: int = 0, scale: float = 1.0) -> Curve:
    x = np.arange(1.0, points + 1)
    y = 0.1 + (asymptote - 0.1) / (1 + (10 / x) ** 2) + 0.01 * np.random.default_rng(seed).normal(size=points)
    return Curve.of(name, x, scale * y, bounded=scale == 1)


def test_the_probability_is_that_of_the_highest_draw_and_shared_at_a_bound() -> None:
    mean, sd = np.array([[0.5, 0.5], [0.6, 0.6], [2.0, 2.0], [2.0, 2.0]]), np.full((4, 2), 0.1)
    unbounded = Mixtures(np.full((4, 2), 0.5), mean, sd, np.full(4, -np.inf), np.full(4, np.inf))
    assert probability_best(unbounded.part(slice(2))) == pytest.approx([0.2398, 0.7602], abs=0.01)  # Φ(−1/√2)
    bounded = Mixtures(np.full((4, 2), 0.5), mean, sd, np.zeros(4), np.ones(4))
    assert probability_best(bounded) == pytest.approx([0, 0, 0.5, 0.5], abs=1e-3)


def test_a_curve_is_carried_to_the_target_as_by_the_fit() -> None:
    curves = [curve("a", 0.9), curve("b", 0.5, seed=1), curve("c", 0.1, seed=2)]
    seen = IndependentForecasts().forecast(curves, 60.0)
    for own, fit in zip(seen, fit_curves(curves, [[60.0]] * 3), strict=True):
        fitted = fit.predictions[0]
        expected = (fitted.mean, fitted.low, fitted.high, fitted.expectation)
        assert (own.median, own.low, own.high, own.expected) == pytest.approx(expected, abs=1e-6)


def test_without_bounds_the_runs_show_what_a_flat_one_may_gain() -> None:
    flat = Curve.of("flat", np.arange(1.0, 16), np.random.default_rng(0).normal(0, 0.001, 15), bounded=False)
    rising = [
        Curve.of(f"rising {i}", np.arange(1.0, 61), 5 * np.arange(1.0, 61) / (20 + np.arange(1.0, 61)), bounded=False)
        for i in range(3)
    ]
    alone, among = (IndependentForecasts().forecast([flat, *more], 60.0) for more in ([], rising))
    assert alone[0].high < 0.1
    assert among[0].high > 1.0
