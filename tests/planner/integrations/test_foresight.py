import numpy as np
import pytest
from scipy.special import ndtr

from planner.curves.curve import Curve
from planner.curves.fitting import fit_curves
from planner.integrations.foresight import Distribution, IndependentForecasts, probability_best


def normal(mean: float, sd: float) -> Distribution:
    value = mean + sd * np.linspace(-5, 5, 256)
    return Distribution(value, ndtr((value - mean) / sd), np.empty(0))


def curve(name: str, asymptote: float, *, points: int = 20, seed: int = 0, scale: float = 1.0) -> Curve:
    x = np.arange(1.0, points + 1)
    y = 0.1 + (asymptote - 0.1) / (1 + (10 / x) ** 2) + 0.01 * np.random.default_rng(seed).normal(size=points)
    return Curve.of(name, x, scale * y, bounded=scale == 1)


@pytest.mark.parametrize("offset", [0.0, -1e4])
def test_the_probability_is_that_of_draws(offset: float) -> None:
    means, sds = np.array([0.5, 0.6, 0.4, 0.62]) + offset, np.array([0.1, 0.02, 0.3, 0.001])
    drawn = np.random.default_rng(0).normal(means, sds, size=(400_000, 4))
    expected = np.bincount(drawn.argmax(axis=1), minlength=4) / len(drawn)
    told = probability_best([normal(*each) for each in zip(means, sds, strict=True)])
    assert told == pytest.approx(expected, abs=0.004)


def test_a_curve_is_carried_to_the_target_as_by_the_fit() -> None:
    curves = [curve("a", 0.9), curve("b", 0.5, seed=1), curve("c", 0.1, seed=2)]
    seen = IndependentForecasts().forecast(curves, 60.0)
    for row, fit in enumerate(fit_curves(curves, [[60.0]] * 3)):
        told = fit.predictions[0]
        assert seen.median[row] == pytest.approx(told.mean, abs=1e-6)
        assert (seen.low[row], seen.high[row]) == pytest.approx((told.low, told.high), abs=1e-6)
        assert seen.mean[row] == pytest.approx(told.expectation, abs=1e-6)


@pytest.mark.parametrize("scale", [1.0, 1024.0])
def test_what_is_kept_changes_no_answer(scale: float) -> None:
    first = [curve(str(i), 0.3 + 0.2 * i, seed=i, scale=scale) for i in range(3)]
    later = [*first[:2], curve("2", 0.7, points=24, seed=2, scale=scale), curve("3", 0.9, seed=3, scale=scale)]
    kept = IndependentForecasts()
    kept.forecast(first, 60.0)
    again, fresh = (each.forecast(later, 60.0) for each in (kept, IndependentForecasts()))
    assert again.probability_best == pytest.approx(fresh.probability_best, abs=1e-6)
    assert again.median == pytest.approx(fresh.median, rel=1e-6)


def test_without_bounds_the_runs_show_what_a_flat_one_may_gain() -> None:
    flat = Curve.of("flat", np.arange(1.0, 16), np.random.default_rng(0).normal(0, 0.001, 15), bounded=False)
    rising = [
        Curve.of(f"rising {i}", np.arange(1.0, 61), 5 * np.arange(1.0, 61) / (20 + np.arange(1.0, 61)), bounded=False)
        for i in range(3)
    ]
    alone, among = (IndependentForecasts().forecast([flat, *more], 60.0) for more in ([], rising))
    assert alone.high[0] < 0.1
    assert among.high[0] > 1.0
