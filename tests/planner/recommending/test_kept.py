"""How the final runs that have ended scale the next promise's interval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from planner.recommending.kept import LEAST, MOST, Kept, Width, factor_left, factor_of
from planner.recommending.promise import Promise
from planner.watching.promised import Foretold

HALF = norm.ppf(0.95)  # standard deviations of half an interval of 90 %
PROMISE = Promise(Foretold(0.6, 0.5, 0.65), ((0.5, 0.4, 0.3, 0.5), (1.0, 0.6, 0.5, 0.65)))
misses = st.lists(st.floats(-60, 60), max_size=40)


def test_without_final_runs_a_promise_is_left_as_it_is() -> None:
    assert factor_of([]) == 1.0
    assert Width().scaled(PROMISE) is PROMISE
    assert Width().said is None


@pytest.mark.parametrize(
    ("seen", "least", "most"),
    [
        ([0.5], 0.97, 1.0),  # one that was kept
        ([-1.2], 1.05, 1.15),  # one that was just not
        ([-8.0], 1.2, 1.3),  # one that collapsed
        ([-2.0] * 20, 3.0, 3.2),  # twenty that lay two halves below
        ([-30.0] * 20, MOST, MOST),
        ([0.1] * 20, LEAST, LEAST),
    ],
)
def test_one_unlucky_final_run_widens_little_and_twenty_bad_ones_a_lot(
    seen: list[float], least: float, most: float
) -> None:
    assert least - 1e-9 <= factor_of(seen) <= most + 1e-9


@pytest.mark.parametrize("scale", [0.9, 1.0, 2.0])
def test_what_many_final_runs_show_is_found(scale: float) -> None:
    drawn = np.random.default_rng(0).normal(0, scale / HALF, 2000)
    assert factor_of(drawn.tolist()) == pytest.approx(scale, rel=0.05)


@given(misses, st.floats(-60, 60))
def test_a_larger_miss_never_narrows_and_the_order_does_not_count(seen: list[float], miss: float) -> None:
    found = factor_of([*seen, miss])
    assert LEAST <= found <= MOST
    assert factor_of([*seen, 1.5 * miss]) >= found - 1e-9
    assert factor_of([miss, *reversed(seen)]) == pytest.approx(found)
    assert factor_of([-each for each in [*seen, miss]]) == pytest.approx(found)


def test_a_miss_is_told_on_its_side_and_by_the_interval_before_it_was_scaled() -> None:
    assert Kept(0.45, 0.6, 0.5, 0.65).miss == pytest.approx(-1.5)
    assert Kept(0.65, 0.6, 0.5, 0.65).miss == pytest.approx(1.0)
    assert Kept(0.45, 0.6, 0.5, 0.65, factor=2.0).miss == pytest.approx(-3.0)
    assert Kept(1.0, 1.0, 1.0, 1.0).miss == 0.0
    assert Kept(0.9, 0.8, 0.6, 0.8).miss == pytest.approx(1.0)  # nothing was promised above
    assert [Kept(each, 0.6, 0.5, 0.65).outside for each in (0.49, 0.5, 0.65, 0.66)] == [True, False, False, True]


def test_the_interval_is_scaled_about_what_is_expected_and_said() -> None:
    width = Width((Kept(0.2, 0.6, 0.5, 0.65), Kept(0.62, 0.6, 0.5, 0.65)))
    scaled, factor = width.scaled(PROMISE), width.factor
    assert factor > 1
    assert scaled.end == Foretold(0.6, 0.6 - factor * (0.6 - 0.5), 0.6 + factor * (0.65 - 0.6))
    assert scaled.band[-1] == (1.0, 0.6, scaled.end.low, scaled.end.high)
    assert width.seen == {"factor": factor, "finals": 2, "outside": 1}
    assert width.said == (
        f"the promised interval is × {factor:.2f}, by 2 final runs of this database, of which 1 ended outside its own"
    )
    wide = Width((Kept(0.2, 0.6, 0.5, 0.65),) * 20).scaled(PROMISE)
    assert wide.band[0][2] == 0.0
    assert wide.end.high == pytest.approx(0.8)


@pytest.mark.parametrize(("left", "factor"), [(1.0, 2.0), (0.25, 1.25), (0.0, 1.0), (-0.1, 1.0)])
def test_a_forecast_under_way_is_scaled_by_what_is_left(left: float, factor: float) -> None:
    assert factor_left(2.0, left) == factor
