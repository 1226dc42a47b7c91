"""A segment is paid for before it starts, with a margin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.sweeping.grants import MARGIN, grant
from tests.planner.sweeping.views import trial


def test_what_can_be_paid_is_granted_whole_with_a_margin() -> None:
    paid = grant(trial(1, step=10, gpu_hours_per_step=0.1, start_up_gpu_hours=0.5), 30, 100.0)
    assert paid is not None
    assert (paid.to_step, paid.gpu_hours) == (30, pytest.approx(MARGIN * (0.5 + 20 * 0.1)))


def test_a_part_is_granted_when_the_whole_is_too_dear() -> None:
    paid = grant(trial(1, step=10, gpu_hours_per_step=0.1, start_up_gpu_hours=0.5, most_steps=2000), 1010, 13.0)
    assert paid is not None
    assert paid.to_step == 10 + 95  # 13 / 1.3 less the start-up
    assert paid.gpu_hours <= 13.0


@pytest.mark.parametrize(
    ("left", "least"),
    [(0.0, 0.0), (0.7, 0.0), (1.1, 0.0), (13.0, 9.6)],
    ids=["nothing", "not one update", "less than the start-up", "less than is worth it"],
)
def test_a_part_that_is_not_worth_its_start_up_is_not_granted(left: float, least: float) -> None:
    assert (
        grant(trial(1, step=10, gpu_hours_per_step=0.1, start_up_gpu_hours=0.5, most_steps=2000), 1010, left, least)
        is None
    )


def test_a_small_rest_is_granted_when_it_is_all_that_is_wanted() -> None:
    paid = grant(trial(1, step=10, gpu_hours_per_step=0.1, start_up_gpu_hours=0.5), 11, 100.0, 50.0)
    assert paid is not None
    assert paid.to_step == 11


def test_no_trial_goes_beyond_its_final_run() -> None:
    paid = grant(trial(1, step=10, most_steps=12), 500, 1e9)
    assert paid is not None
    assert paid.to_step == 12
    assert grant(trial(1, step=12, most_steps=12), 500, 1e9) is None


@given(
    step=st.integers(0, 50),
    wanted=st.integers(0, 100),
    price=st.floats(0, 10),
    start_up=st.floats(0, 10),
    left=st.floats(0, 1e4),
)
def test_a_grant_is_within_what_is_left_and_what_is_wanted(
    step: int, wanted: int, price: float, start_up: float, left: float
) -> None:
    paid = grant(
        trial(1, step=step, gpu_hours_per_step=price, start_up_gpu_hours=start_up, most_steps=80, seen=()), wanted, left
    )
    if paid is not None:
        assert step < paid.to_step <= min(wanted, 80)
        assert paid.gpu_hours <= left
        assert paid.gpu_hours >= start_up + (paid.to_step - step) * price - 1e-9 * left
