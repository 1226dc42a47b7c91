import numpy as np
import pytest

from planner.belief.forecasts import remaining_gain_alone
from planner.curves.curve import Curve


def sigmoid(end: float, points: int, middle: float, noise: float = 0.004) -> Curve:
    x = np.linspace(0, end, points)
    y = 0.3 + 0.5 / (1 + (middle / np.maximum(x, 1e-9)) ** 2)
    return Curve.of("run", x, y + np.random.default_rng(3).normal(0, noise, points), bounded=True)


def test_a_curve_that_is_saturated_has_nothing_left_and_one_that_rises_has() -> None:
    saturated, rising = remaining_gain_alone(sigmoid(80, 40, 5), 100), remaining_gain_alone(sigmoid(30, 20, 30), 100)

    assert saturated is not None
    assert rising is not None
    assert saturated.won
    assert saturated.share == pytest.approx(0.2)
    assert not rising.won
    assert rising.expected > 0.1


@pytest.mark.parametrize(
    "curve",
    [
        sigmoid(20, 20, 5),  # too early
        Curve.of("flat", np.arange(1.0, 60), np.full(59, 0.4) + 0.01 * np.resize([1, -1], 59)),  # it may rise late
        Curve.of("reward", np.arange(1.0, 60), 3 * np.arange(1.0, 60)),  # another scale
    ],
)
def test_what_a_curve_cannot_tell_is_not_said(curve: Curve) -> None:
    assert remaining_gain_alone(curve, 100) is None
