from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.curves.curve import Curve
from planner.curves.gain_curve import CannotTellError, LawDraws, draw_power_law, draw_sigmoid, interval
from tests.planner.curves.family_samples import Sigmoid, curve_of

Draw = Callable[[Curve], LawDraws]
DRAW = [pytest.param(draw_sigmoid, id="sigmoid"), pytest.param(draw_power_law, id="power law")]


# Sigmoid and power law


def best(draws: LawDraws) -> dict[str, float]:
    return {name: float(values[0]) for name, values in draws.parameters.items()}


@given(
    start=st.floats(0, 0.4),
    asymptote=st.floats(0.5, 1),
    steepness=st.floats(0.6, 5),
    midpoint=st.floats(1e-3, 1e6),
)
@settings(max_examples=5, deadline=None)
def test_a_sigmoid_without_noise_is_recovered(
    start: float, asymptote: float, steepness: float, midpoint: float
) -> None:
    truth = Sigmoid(start, asymptote, steepness, midpoint)
    draws = draw_sigmoid(curve_of(truth, np.append(0.0, np.geomspace(midpoint / 10, midpoint * 20, 40))))
    assert best(draws) == pytest.approx(truth._asdict(), rel=1e-4, abs=1e-6)


def test_a_power_law_without_noise_is_recovered() -> None:
    for asymptote, exponent, gap in ((0.7, 0.4, 0.4), (0.95, 2.5, 0.2), (0.6, 0.1, 0.5)):
        x = np.geomspace(50, 5e4, 40)
        y = asymptote - gap * (x / 50) ** -exponent
        draws = draw_power_law(Curve.of("power", np.append(0, x), np.append(0.01, y)))
        assert best(draws) == pytest.approx({"A": asymptote, "B": exponent, "D": gap * 50**exponent}, rel=1e-3)
        assert draws.values(x)[0] == pytest.approx(y, abs=1e-4)


@pytest.mark.parametrize("scale", [1e-3, 100.0])
def test_a_sigmoid_does_not_depend_on_the_unit_of_unbounded_scores(scale: float) -> None:
    truth = Sigmoid(-3.0, 5.0, 1.5, 300.0)
    x = np.geomspace(10, 1e4, 30)
    start, asymptote, *shape = best(draw_sigmoid(Curve.of("reward", x, scale * truth.at(x)))).values()
    assert (start / scale, asymptote / scale, *shape) == pytest.approx(truth, rel=1e-4)


# What every family of curves keeps to


@pytest.mark.parametrize("draw", DRAW)
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([], [], "0 distinct x"),
        ([100.0], [0.5], "1 distinct x"),
        ([5.0] * 9, np.linspace(0, 1, 9), "1 distinct x"),
        (np.arange(1, 9), [0.5] * 8, "the score 0.5 everywhere"),
    ],
)
def test_a_degenerate_curve_cannot_tell_and_says_what_is_missing(
    draw: Draw, x: list[float], y: list[float], message: str
) -> None:
    with pytest.raises(CannotTellError, match=message):
        draw(Curve.of("degenerate", x, y))


# How honest they are

SCALERL = Sigmoid(0.3, 0.61, 1.92, 2542.0)


def test_intervals_of_a_sigmoid_hold_its_asymptote_as_often_as_they_say() -> None:
    inside = []
    for seed in range(10):
        draws = draw_sigmoid(curve_of(SCALERL, np.linspace(125, 5000, 40), noise=0.01, seed=seed))
        _, low, high = interval(draws.parameters["A"], draws.levels, 0.9)
        inside.append(low <= SCALERL.A <= high)
    assert sum(inside) >= 7


FALLS = Sigmoid(0.6, 0.1, 2.0, 1000.0)
LEVEL = Curve.of("flat", np.arange(1, 61), 0.5 + np.random.default_rng(0).normal(0, 0.01, 60))


@pytest.mark.parametrize(
    ("draw", "curve", "doubt"),
    [
        (draw_sigmoid, curve_of(SCALERL, np.linspace(50, 2000, 60), noise=0.01), "A may lie between"),
        (draw_sigmoid, LEVEL, "the scores do not change by more than their noise"),
        (draw_sigmoid, curve_of(FALLS, np.linspace(50, 5000, 60), noise=0.01), "the scores fall"),
        (draw_power_law, curve_of(FALLS, np.linspace(50, 5000, 60), noise=0.01), "the scores fall"),
        (draw_sigmoid, curve_of(SCALERL, np.linspace(200, 12_000, 60), noise=0.01), None),
    ],
)
def test_a_curve_that_has_not_bent_fallen_or_never_moved_does_not_tell_where_it_ends(
    draw: Draw, curve: Curve, doubt: str | None
) -> None:
    doubts = draw(curve).doubts
    assert len(doubts) == (doubt is not None)
    assert doubt is None or doubts[0].startswith(doubt)
