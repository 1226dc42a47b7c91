from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner.pooling.features import places
from planner.pooling.spread import spread_out
from planner.view import Configuration

SQUARE = [Configuration(2**n, 2**B) for n in range(2, 7) for B in range(4, 9)]
CONFIGURATIONS = st.lists(
    st.builds(lambda n, B: Configuration(2**n, 2**B), st.integers(0, 8), st.integers(0, 8)), max_size=20, unique=True
)


def farthest(configurations: list[Configuration], chosen: list[int]) -> float:
    points = places(configurations)
    distance = ((points[:, None] - points[chosen]) ** 2).sum(axis=2)
    return float(distance.min(axis=1).sum())


def test_the_first_is_the_most_central() -> None:
    assert SQUARE[spread_out(SQUARE, 1)[0]] == Configuration(16, 64)


def test_a_few_stand_for_all() -> None:
    few = spread_out(SQUARE, 5)
    rng = np.random.default_rng(0)
    by_chance = [farthest(SQUARE, list(rng.choice(len(SQUARE), 5, replace=False))) for _ in range(50)]
    assert farthest(SQUARE, few) < np.quantile(by_chance, 0.1)


@given(CONFIGURATIONS, st.integers(0, 25))
def test_as_many_as_are_asked_for_all_different_each_nearer_to_the_rest(
    configurations: list[Configuration], number: int
) -> None:
    chosen = spread_out(configurations, number)
    assert len(chosen) == len(set(chosen)) == min(number, len(configurations))
    assert chosen == spread_out(configurations, len(configurations))[: len(chosen)]
    left = [farthest(configurations, chosen[: count + 1]) for count in range(len(chosen))]
    assert all(later <= earlier for earlier, later in pairwise(left))


def test_names_are_spread_over_too() -> None:
    both = [Configuration(n, 64, (("recipe", kind),)) for kind in ("a", "b") for n in (4, 8, 16)]
    first, second = (both[place] for place in spread_out(both, 2))
    assert first.axes != second.axes
