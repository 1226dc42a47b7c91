"""A thinned curve looks as the whole one would: ends, spikes and collapses stay."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlplan.charts.thinning import FEWEST, thinned

scores = st.floats(0.0, 1.0)
curves = st.lists(st.tuples(st.floats(0.0, 1e6), scores), max_size=300)


def columns(curve: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return sorted(x for x, _ in curve), [y for _, y in curve]


@given(curves, st.integers(FEWEST, 60))
def test_few_points_stay_and_they_are_the_outermost(curve: list[tuple[float, float]], most: int) -> None:
    x, y = columns(curve)
    kept = thinned(x, y, most)
    assert len(kept) == len(y) if len(y) <= most else len(kept) <= most
    assert (np.diff(kept) > 0).all()
    if y:
        assert (kept[0], kept[-1]) == (0, len(y) - 1)
        shown = np.asarray(y)[kept]
        assert (shown.min(), shown.max()) == (min(y), max(y))


@given(st.integers(50, 2000), st.integers(0, 10**9), st.integers(20, 100), st.booleans(), st.integers(0, 2**31))
def test_a_single_point_that_falls_or_leaps_is_never_lost(
    count: int, place: int, most: int, up: bool, seed: int
) -> None:
    x = np.cumsum(np.random.default_rng(seed).exponential(size=count))
    y = 0.3 + 0.4 * np.arange(count) / count
    spike = place % count
    y[spike] = 1.0 if up else 0.0
    assert spike in thinned(x, y, most)
