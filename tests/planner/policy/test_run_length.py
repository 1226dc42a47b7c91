"""How far the GPU-hours of a final run go, and what prices a step of it."""

from dataclasses import replace

import pytest

from planner.policy.final import last_spacing, measured_price, paid_steps
from planner.view import ScorePoint, TrialState
from tests.planner.policy.views import trial


@pytest.mark.parametrize(
    ("gpu_hours", "step", "start_up", "further", "paid"),
    [
        (100.6, 0, 0.0, 0.0, 100),  # and the margin of the last segment
        (100.4, 0, 0.0, 0.0, 95),
        (2.3, 3, 0.0, 0.0, 5),  # what is left of a segment that was cut short
        (5.4, 10, 0.0, 0.0, 10),  # no further one is paid for
        (120.6, 0, 20.0, 0.0, 100),  # a start-up counts once
        (60.6, 0, 0.0, 1.0, 50),  # and what each segment takes beside its updates for each
    ],
)
def test_the_last_update_that_is_paid_for_is_a_validated_one(
    gpu_hours: float, step: int, start_up: float, further: float, paid: int
) -> None:
    run = trial(0, TrialState.PAUSED, step=step, start_up_gpu_hours=start_up)  # 5 updates of 1 GPU-hour a segment
    assert paid_steps(run, gpu_hours, further) == paid
    limited = paid_steps(run, gpu_hours, further, 48)
    assert limited == (45 if paid > 48 else paid)


def test_the_newest_validations_price_a_step() -> None:
    dear = [ScorePoint(step, 2.0 * step, 0.5, None) for step in range(0, 60, 10)]
    cheap = [ScorePoint(step, 100.0 + step - 50, 0.5, None) for step in range(60, 120, 10)]
    assert measured_price([*dear, *cheap], 10) == pytest.approx(1.0)
    assert measured_price(dear, 10) == pytest.approx(2.0)
    assert measured_price(dear[:1], 10) is None
    assert measured_price([], 10) is None


def test_the_validations_of_a_pilot_price_none() -> None:
    pilot = [ScorePoint(step, 2.0 * step, 0.5, None) for step in range(0, 60, 10)]
    assert measured_price(pilot, 100) is None
    assert measured_price([*pilot, ScorePoint(150, 200.0, 0.5, None)], 100) == pytest.approx(1.0)


def test_the_last_validations_are_spaced_so_that_no_hours_are_left() -> None:
    run = trial(0, TrialState.PAUSED, step=80, most_steps=80, segment_steps=20)
    assert paid_steps(run, 19.0, 0.1) == 80
    spacing = last_spacing(run, 19.0, 0.1)
    assert 14 <= spacing < 20
    closer = replace(run, segment_steps=spacing)
    assert paid_steps(closer, 19.0, 0.1) >= 95
    assert last_spacing(run, 19.0, 10.0) == 20  # where opening it again takes too much
    assert last_spacing(replace(run, step=40), 59.0, 0.1) == 20  # not near its end
