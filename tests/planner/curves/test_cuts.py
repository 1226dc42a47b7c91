import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.fitting import cut_before

X = np.arange(0, 201, dtype=float)


def measured(mean, seed: int) -> Curve:
    return Curve.of("c", X, mean + 0.005 * np.random.default_rng(seed).normal(size=X.size), bounded=True)


def clean(seed: int = 0) -> Curve:
    return measured(0.2 + 0.5 * X / (60 + X), seed)


@pytest.mark.parametrize("x", [0.0, 1.0, 37.5, 200.0])
def test_cutting_keeps_the_points_from_x_on_and_the_one_before_training(x):
    cut = cut_before(clean(), x)
    assert cut.x.tolist() == [0.0, *(value for value in range(1, 201) if value >= x)]
    assert cut.y[0] == clean().y[0]


def test_what_was_cut_is_noted_and_standard_errors_are_cut_along():
    curve = Curve.of("c", [2, 0, 1], [0.3, 0.1, 7.0], standard_errors=[0.03, 0.01, 0.02])
    cut = cut_before(curve, 1.5)
    assert cut.notes == ("points sorted by x", "1 points before x = 1.5 left out")
    assert (cut.standard_errors.tolist(), cut.bounded) == ([0.01, 0.03], False)
    assert cut_before(curve, 0.5).notes == ("points sorted by x",)


@pytest.mark.parametrize(
    ("x", "message"), [([0, 1, 2], "leaves no point of 3; the last lies at 2"), ([0], "of 1"), ([], "of 0")]
)
def test_a_cut_that_leaves_nothing_at_positive_compute_is_refused(x, message):
    with pytest.raises(InputError, match=f"cutting curve 'c' before 5 {'' if x[1:] else '.*'}{message}"):
        cut_before(Curve.of("c", x, np.full(len(x), 0.5)), 5)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0, 100))
def test_cutting_twice_is_cutting_once(x, at):
    curve = Curve.of("c", x, np.full(len(x), 0.5))
    if not np.any((curve.x >= at) & (curve.x > 0)):
        return
    once = cut_before(curve, at)
    twice = cut_before(once, at)
    assert once.x.tolist() == twice.x.tolist()
    assert once.notes == twice.notes
