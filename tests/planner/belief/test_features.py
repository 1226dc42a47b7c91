import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.belief.features import features, places, spread_out
from planner.belief.points import BINS, EMPTY_VARIANCE, binned, stacked
from planner.view import Configuration, ScorePoint


def with_axis(name: str, values: list[str | float]) -> list[Configuration]:
    return [Configuration(8, 32, ((name, value),)) for value in values]


def test_positive_numbers_are_on_an_axis_of_logarithms_and_others_are_not() -> None:
    assert places(with_axis("learning_rate", [0.25, 1.0, 4.0])).ravel() == pytest.approx([-1, 0, 1])
    assert places(with_axis("temperature", [0.0, 1.0, 4.0])).ravel() == pytest.approx([-1, -0.5, 1])
    assert places(with_axis("offset", [-2.0, 0.0, 2.0])).ravel() == pytest.approx([-1, 0, 1])


CONFIGURATIONS = st.builds(
    lambda n, B, axes: Configuration(2**n, 2**B, axes),
    st.integers(0, 8),
    st.integers(0, 10),
    st.sampled_from([(), (("recipe", "a"),), (("recipe", "b"),), (("learning_rate", 2.0),), (("shift", -1.0),)]),
)


@given(st.lists(CONFIGURATIONS, min_size=1, max_size=12, unique=True))
def test_places_lie_within_the_box_and_tell_configurations_apart(chosen: list[Configuration]) -> None:
    points = places(chosen)
    assert len(points) == len(chosen)
    assert (np.abs(points) <= 1).all()
    assert len(np.unique(points.round(9), axis=0)) == len(chosen)
    design = features(chosen).design
    assert design.shape[:2] == (len(chosen), 3)
    assert (np.abs(design) <= 1).all()


CONFIGURATIONS = st.lists(
    st.builds(lambda n, B: Configuration(2**n, 2**B), st.integers(0, 8), st.integers(0, 8)), max_size=20, unique=True
)


def farthest(configurations: list[Configuration], chosen: list[int]) -> float:
    points = places(configurations)
    distance = ((points[:, None] - points[chosen]) ** 2).sum(axis=2)
    return float(distance.min(axis=1).sum())


@given(CONFIGURATIONS, st.integers(0, 25))
def test_as_many_as_are_asked_for_all_different_each_nearer_to_the_rest(
    configurations: list[Configuration], number: int
) -> None:
    chosen = spread_out(configurations, number)
    assert len(chosen) == len(set(chosen)) == min(number, len(configurations))
    assert chosen == spread_out(configurations, len(configurations))[: len(chosen)]
    left = [farthest(configurations, chosen[: count + 1]) for count in range(len(chosen))]
    assert all(later <= earlier for earlier, later in pairwise(left))


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
