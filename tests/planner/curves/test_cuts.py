import numpy as np
import pytest

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.fitting import cut_before


@pytest.mark.parametrize("x", [0.0, 1.0, 37.5, 200.0])
def test_cutting_keeps_the_points_from_x_on_and_the_one_before_training(x):
    curve = Curve.of("c", np.arange(201.0), np.arange(201.0) / 400)
    assert cut_before(curve, x).x.tolist() == [0.0, *(value for value in range(1, 201) if value >= x)]


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
