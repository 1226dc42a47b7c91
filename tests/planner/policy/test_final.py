"""The policy of a final run."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from planner.belief.forecasts import LEAST_CHANCE
from planner.belief.pool import Pool
from planner.policy.actions import Advance, Finish, Stop
from planner.policy.final import FinalPolicy, left_by
from planner.view import TrialState, TrialView, View
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
