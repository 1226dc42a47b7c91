import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from budgets.errors import InputError
from planner.curves.curve import Curve

NAN = float("nan")


def test_points_come_sorted_with_their_standard_errors_and_those_of_one_x_in_their_order():
    curve = Curve.of("c", [3, 1, 2, 1], [0.3, 0.1, 0.2, 0.4], standard_errors=[0.03, 0.01, 0.02, 0.04])
    assert curve.x.tolist() == [1, 1, 2, 3]
    assert curve.y.tolist() == [0.1, 0.4, 0.2, 0.3]
    assert curve.standard_errors.tolist() == [0.01, 0.04, 0.02, 0.03]
    assert curve.notes == ("points sorted by x",)


@pytest.mark.parametrize(
    ("x", "y", "errors", "kept", "note"),
    [
        ([0, 1, 2], [0.1, NAN, 0.3], None, [0, 2], "1 points dropped: not finite"),
        ([-1, 0, 2], [0.1, 0.2, 0.3], None, [0, 2], "1 points dropped: negative x"),
        ([0, 1, 2], [0.1, 0.2, 0.3], [0.1, NAN, -1], [0], "2 points dropped: not finite"),
    ],
)
def test_unusable_points_are_dropped_with_a_note(x, y, errors, kept, note):
    curve = Curve.of("c", x, y, standard_errors=errors)
    assert curve.x.tolist() == kept
    assert curve.notes == (note,)


@pytest.mark.parametrize(
    ("scores", "said", "bounded"),
    [
        ([0, 1], None, True),
        ([0.2, 1.01], None, False),
        ([0.2, 0.5], False, False),
        ([], None, False),
    ],
)
def test_scores_within_zero_and_one_are_bounded_unless_said_otherwise(scores, said, bounded):
    assert Curve.of("c", range(len(scores)), scores, bounded=said).bounded == bounded


@given(hnp.arrays(float, st.integers(0, 50)), st.data())
def test_whatever_comes_the_points_are_finite_and_ascend(x, data):
    y = data.draw(hnp.arrays(float, x.size))
    curve = Curve.of("c", x, y)
    assert np.all(np.isfinite(curve.x))
    assert np.all(np.isfinite(curve.y))
    assert np.all(curve.x >= 0)
    assert np.all(np.diff(curve.x) >= 0)
    assert bool(curve.notes) == (curve.x.size < x.size or np.any(np.diff(x) < 0))


@pytest.mark.parametrize(
    ("x", "y", "end"),
    [(np.arange(10, 111), np.arange(10, 111) / 200, (105, 105 / 200)), ([4], [0.7], (4, 0.7))],
)
def test_end_is_the_mean_over_the_last_tenth_of_the_range(x, y, end):
    assert Curve.of("c", x, y).end == pytest.approx(end)


def test_first_fraction_is_measured_from_the_first_point():
    curve = Curve.of("c", [50, 60, 80, 100], [0.1, 0.2, 0.3, 0.4], standard_errors=[1, 2, 3, 4])
    first = curve.first_fraction(0.25)  # a run that goes on from step 50
    assert first.x.tolist() == [50, 60]
    assert first.y.tolist() == [0.1, 0.2]
    assert first.standard_errors.tolist() == [1, 2]
    assert curve.first_fraction(0.1).x.tolist() == [50]
    assert curve.first_fraction(1).x.tolist() == curve.x.tolist()
    assert Curve.of("c", [], []).first_fraction(0.5).x.size == 0


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: Curve.of("c", [1, 2], [1, 2, 3]), "'c' has 2 x values and 3 scores"),
        (lambda: Curve.of("c", [1, 2], [1, 2], standard_errors=[1]), "'c' has 2 scores and 1 standard errors"),
        (lambda: Curve.of("c", [1], [NAN]).end, "'c' has no usable point"),
    ],
)
def test_what_cannot_be_is_refused(ask, says):
    with pytest.raises(InputError, match=says):
        ask()
