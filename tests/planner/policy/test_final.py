"""The policy of a final run."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from planner.belief.forecasts import LEAST_CHANCE
from planner.belief.pool import Pool
from planner.policy.actions import Advance, Finish, Stop
from planner.policy.final import FinalPolicy, last_spacing, left_by, measured_price, paid_steps
from planner.view import ScorePoint, TrialState, TrialView, View
from tests.planner.policy.views import trial

RISEN = {"asymptote": 0.7, "middle": 2.0}  # nearly all of it by a third of the run


def seen(run: TrialView) -> View:
    return View({run.trial: run}, gpu_hours_left=500.0, target_gpu_hours=100.0, free_workers=1, seed=0)


def stopping() -> FinalPolicy:
    pilots = {number: trial(number, TrialState.PAUSED, step=10, cell=(16, B)) for number, B in ((1, 16), (2, 64))}
    return FinalPolicy(partial(left_by, replace(seen(trial(3)), trials=pilots), Pool()))


def paused(step: int, **others: Any) -> TrialView:
    return trial(0, TrialState.PAUSED, step=step, **others)


@pytest.mark.parametrize(("step", "to_step"), [(0, 5), (5, 10), (7, 10), (98, 100)])
def test_it_goes_on_from_one_validation_to_the_next(step: int, to_step: int) -> None:
    state = TrialState.PAUSED if step else TrialState.PLANNED
    (action,) = FinalPolicy().decide(seen(trial(0, state, step=step)))
    assert isinstance(action, Advance)
    assert action.to_step == to_step


def test_it_finishes_at_the_end_and_stops() -> None:
    finish, stop = FinalPolicy().decide(seen(paused(100)))
    assert isinstance(finish, Finish)
    assert isinstance(stop, Stop)
    assert (stop.why.reason, stop.why.figures) == ("the final run is over", {"gpu_hours_left": 500.0})


@pytest.mark.parametrize("state", [TrialState.RUNNING, TrialState.FAILED, TrialState.FINISHED])
def test_it_waits_for_what_runs_and_starts_nothing_that_failed(state: TrialState) -> None:
    assert FinalPolicy().decide(seen(trial(0, state, step=20))) == []


def test_it_ends_where_nothing_is_left_to_win_only_when_asked() -> None:
    view = seen(paused(80, **RISEN))
    asked, stop = stopping().decide(view)
    assert isinstance(stop, Stop)
    assert isinstance(asked, Finish)
    assert "20 % of the GPU-hours are left; they are expected to bring 0.0" in asked.why.reason
    assert asked.why.figures["chance"] < LEAST_CHANCE
    (not_asked,) = FinalPolicy().decide(view)
    assert isinstance(not_asked, Advance)


def test_what_still_rises_goes_on() -> None:
    (action,) = stopping().decide(seen(paused(40, asymptote=0.9, middle=60.0)))
    assert isinstance(action, Advance)


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
