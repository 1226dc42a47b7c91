"""A thinned curve looks as the whole one would: ends, spikes and collapses stay."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rlplan.charts.chart import FEWEST, thinned

scores = st.floats(0.0, 1.0)


@given(st.lists(scores, max_size=300), st.integers(FEWEST, 60))
def test_few_points_stay_and_they_are_the_outermost(y: list[float], most: int) -> None:
    kept = thinned(y, most)
    assert len(kept) == len(y) if len(y) <= most else len(kept) <= most
    assert (np.diff(kept) > 0).all()
    if y:
        assert (kept[0], kept[-1]) == (0, len(y) - 1)
        shown = np.asarray(y)[kept]
        assert (shown.min(), shown.max()) == (min(y), max(y))


@given(st.integers(50, 2000), st.integers(0, 10**9), st.integers(20, 100), st.booleans())
def test_a_single_point_that_falls_or_leaps_is_never_lost(count: int, place: int, most: int, up: bool) -> None:
    y = 0.3 + 0.4 * np.arange(count) / count
    spike = place % count
    y[spike] = 1.0 if up else 0.0
    assert spike in thinned(y, most)
