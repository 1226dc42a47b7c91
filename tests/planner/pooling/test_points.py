import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.pooling.points import (
    BINS,
    DISPERSION_PRIOR,
    EMPTY,
    ORIGIN,
    binned,
    clock,
    pass_rate_variance,
    stacked,
)
from planner.view import Seen


def curve(scores: list[float], errors: list[float | None] | None = None, *, first: int = 0) -> list[Seen]:
    given_errors = errors or [None] * len(scores)
    return [
        Seen(step, 0.5 * step, score, error)
        for step, (score, error) in enumerate(zip(scores, given_errors, strict=True), start=first)
    ]


RISING = st.lists(st.floats(0.0, 0.1), min_size=1, max_size=200).map(lambda steps: list(np.cumsum([0.2, *steps]) / 25))


@given(RISING, st.integers(0, 1))
def test_bins_keep_every_score_once_and_the_mean_of_scores_and_compute(scores: list[float], first: int) -> None:
    made = curve(scores, first=first)
    bins = binned(made)
    assert bins.x.shape == bins.score.shape == bins.count.shape == (BINS,)
    assert bins.count.sum() == len(made)
    assert bins.count @ bins.score == pytest.approx(sum(each.score for each in made))
    assert bins.count @ bins.x == pytest.approx(sum(each.gpu_hours for each in made))
    assert bins.reached == made[-1].gpu_hours
    filled = bins.x[bins.count > 0]
    assert (np.diff(filled) > 0).all()


def test_scores_at_no_compute_have_a_bin_of_their_own() -> None:
    with_start = binned(curve([0.1, 0.3, 0.4]))
    assert (with_start.count[0], with_start.x[0], with_start.score[0]) == (1, 0, 0.1)
    without = binned(curve([0.3, 0.4], first=1))
    assert without.count[0] == 0
    assert without.count.sum() == 2
    several = [Seen(0, 0.0, 0.1, None), Seen(0, 0.0, 0.3, None), Seen(1, 1.0, 0.5, None)]
    assert binned(several).score[0] == pytest.approx(0.2)


def test_a_long_curve_leaves_no_bin_with_most_of_its_scores() -> None:
    bins = binned(curve([0.5] * 501))
    assert bins.count.max() < 200
    assert (bins.count > 0).sum() >= BINS - 3


def test_a_collapsed_curve_keeps_its_end_and_tells_the_level_it_fell_to() -> None:
    bins = binned(curve([0.2, 0.4, 0.5, 0.02, 0.04]))
    assert bins.collapsed == pytest.approx(0.03)
    assert bins.reached == 2.0
    assert bins.count.sum() == 3
    assert bins.score.max() == 0.5
    assert binned(curve([0.2, 0.4, 0.5])).collapsed is None


def test_standard_errors_are_taken_as_they_are_given() -> None:
    wild = list(np.clip(0.5 + 0.2 * np.random.default_rng(0).normal(size=10), 0, 1))
    points = stacked([binned(curve(wild, [0.03] * 10))], 10.0)
    filled = points.variance < 1
    assert points.variance[filled] == pytest.approx(0.03**2)
    assert (points.variance[~filled] == EMPTY).all()
    assert points.of_one_score == pytest.approx(0.03**2)


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_without_standard_errors_the_scatter_tells_the_noise(noise: float) -> None:
    rng = np.random.default_rng(1)
    rise = np.linspace(0.4, 0.6, 60)
    curves = [binned(curve(list(rise + noise * rng.normal(size=60)))) for _ in range(8)]
    assert math.sqrt(stacked(curves, 30.0).of_one_score) == pytest.approx(noise, rel=0.3)


def test_a_jump_is_not_taken_for_noise() -> None:
    scores = [0.3] * 20 + [0.6] * 20
    assert stacked([binned(curve(scores))], 20.0).of_one_score < DISPERSION_PRIOR * 0.25


def test_a_mean_of_more_scores_varies_less() -> None:
    points = stacked([binned(curve([0.5] * 200, [0.02] * 200))], 100.0)
    count = binned(curve([0.5] * 200)).count
    filled = count > 0
    assert points.variance[0, filled] == pytest.approx(0.02**2 / count[filled])


def test_a_score_of_zero_or_one_is_not_certain() -> None:
    assert (pass_rate_variance(np.array([-0.1, 0.0, 0.5, 1.0, 1.2])) > 0).all()
    assert pass_rate_variance(np.array([0.5]))[0] == 0.25
    points = stacked([binned(curve([0.0, 0.0]))], 1.0)
    assert (points.variance > 0).all()


def test_compute_is_counted_in_targets_and_its_clock_starts_at_nothing() -> None:
    points = stacked([binned(curve([0.1, 0.2, 0.3]))], 4.0)
    assert points.x.max() == 0.25
    assert clock(np.array([0.0]))[0] == 0.0
    assert clock(np.array([ORIGIN]))[0] == pytest.approx(math.log(2))
    assert points.time == pytest.approx(clock(points.x))


def test_no_curves_are_no_points() -> None:
    points = stacked([], 10.0)
    assert points.x.shape == points.score.shape == points.variance.shape == (0, BINS)
