from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.pooling.features import features, places, spread_out
from planner.view import Configuration


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
