"""A segment is paid for before it starts, with a margin."""

import pytest

from planner.sweeping.grants import MARGIN, grant
from tests.planner.sweeping.views import trial


@pytest.mark.parametrize(
    ("wanted", "left", "least", "to_step"),
    [
        (30, 100.0, 0.0, 30),
        (1010, 13.0, 0.0, 105),  # a part, when the whole is too dear: 13 / 1.3 less the start-up
        (11, 100.0, 50.0, 11),  # a small rest, when it is all that is wanted
        (5000, 1e9, 0.0, 2000),  # no trial goes beyond its final run
        (1010, 0.0, 0.0, None),
        (1010, 0.7, 0.0, None),  # not one update
        (1010, 1.1, 0.0, None),  # less than the start-up
        (1010, 13.0, 9.6, None),  # less than is worth it
        (10, 1e9, 0.0, None),
    ],
)
def test_as_much_is_granted_with_a_margin_as_is_paid_for_and_worth_its_start_up(
    wanted: int, left: float, least: float, to_step: int | None
) -> None:
    paid = grant(
        trial(1, step=10, gpu_hours_per_step=0.1, start_up_gpu_hours=0.5, most_steps=2000), wanted, left, least
    )
    assert (paid.to_step if paid else None) == to_step
    if paid:
        assert paid.gpu_hours == pytest.approx(MARGIN * (0.5 + (paid.to_step - 10) * 0.1))
        assert paid.gpu_hours <= left
