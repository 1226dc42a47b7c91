import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.pooling.points import BINS, EMPTY_VARIANCE, binned, stacked
from planner.view import ScorePoint


def curve(scores: list[float], errors: list[float | None] | None = None, *, first: int = 0) -> list[ScorePoint]:
    given_errors = errors or [None] * len(scores)
    return [
        ScorePoint(step, 0.5 * step, score, error)
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


def test_standard_errors_are_taken_as_they_are_given() -> None:
    wild = list(np.clip(0.5 + 0.2 * np.random.default_rng(0).normal(size=10), 0, 1))
    points = stacked([binned(curve(wild, [0.03] * 10))], 10.0)
    filled = points.variance < 1
    assert points.variance[filled] == pytest.approx(0.03**2)
    assert (points.variance[~filled] == EMPTY_VARIANCE).all()
    assert points.of_one_score == pytest.approx(0.03**2)


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_without_standard_errors_the_scatter_tells_the_noise(noise: float) -> None:
    rng = np.random.default_rng(1)
    rise = np.linspace(0.4, 0.6, 60)
    curves = [binned(curve(list(rise + noise * rng.normal(size=60)))) for _ in range(8)]
    assert math.sqrt(stacked(curves, 30.0).of_one_score) == pytest.approx(noise, rel=0.3)
