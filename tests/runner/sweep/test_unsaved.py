"""Segments that end before their trainer has saved: none is paid for a second time at the same length."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from planner.policy.policies import open_policy
from planner.store.schema import Decision, Segment, SegmentOutcome, SweepStatus, Trial
from planner.view import TrialState
from runner.ports.executor import Ended, Event
from runner.ports.trial import SimulationChoice
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.runner.sweep.test_driver import COSTS, rows, sweep
from tests.simulated.executor import SimulatedExecutor

FEW: dict[str, Any] = {"flags": {"pilot.most_pilots": ("", 2)}, "workers": 2, "budget": 0.1}


class SavesSeldom(SimulatedExecutor):
    """Its trainers save every so many updates and at no other time: a segment's end loses what came after."""

    every = 1
    last = 10**9  # and none after that update

    def wait(self, seconds: float) -> Sequence[Event]:
        return [
            replace(event, step=min(event.step, self.last) // self.every * self.every)
            if isinstance(event, Ended)
            else event
            for event in super().wait(seconds)
        ]


def run(given: SimulatedSweep, every: int, last: int = 10**9) -> list[Segment]:
    """Run a sweep whose trainers save every so many updates up to the last; return its segments."""
    with given.store() as store:
        executor = SavesSeldom(given.workers)
        executor.every, executor.last = every, last
        given.driver(executor, open_policy("full"), store).run()
    return rows(given, Segment)


def wasted(segments: Sequence[Segment]) -> dict[int, list[float]]:
    """Return the GPU-hours of each trial's segments that gained nothing, in their order."""
    found: dict[int, list[float]] = {}
    for each in segments:
        if each.outcome is SegmentOutcome.COMMITTED and each.to_step <= each.from_step:
            found.setdefault(each.trial_id, []).append(each.charged_gpu_hours or 0.0)
    return found


def test_a_segment_that_ended_before_a_save_is_followed_by_longer_ones(tmp_path: Path) -> None:
    given = sweep(tmp_path, room=8.0, **FEW)
    planned = next(each.segment_steps for each in given.plan.candidates if each.pilot_steps)
    segments = run(given, every=planned + planned // 2)
    lost = wasted(segments)
    assert lost
    assert all(after >= 1.5 * before for each in lost.values() for before, after in pairwise(each))
    assert all(trial.state is TrialState.FINISHED for trial in rows(given, Trial))


def test_a_trial_that_never_saves_ends_within_its_share_and_says_why(tmp_path: Path) -> None:
    given = sweep(tmp_path, room=2.0, **FEW)
    lost = wasted(run(given, every=10**6))
    trials = rows(given, Trial)
    assert {(trial.state, trial.failure_class) for trial in trials} == {(TrialState.FAILED, "unsaved")}
    assert all(sum(each) <= given.spec.pilot_gpu_hours / len(trials) for each in lost.values())
    assert any("no save came" in each.reason for each in rows(given, Decision) if each.action == "failed")


def test_a_sweep_ends_after_two_trials_without_a_save_and_says_what_to_set(tmp_path: Path) -> None:
    given = sweep(tmp_path, room=2.0, workers=2, budget=0.1)
    executor = SavesSeldom(given.workers)
    executor.every = 10**6
    outcome = given.drive(executor, open_policy("full"))
    states = [trial.state for trial in rows(given, Trial)]
    assert outcome.status is SweepStatus.FAILED
    assert states.count(TrialState.FAILED) == 2 < len(states)
    assert outcome.spent_gpu_hours < given.spec.pilot_gpu_hours / 2
    last = rows(given, Decision)[-1]
    assert last.action == "stop"
    assert "save_seconds" in last.reason


def test_a_trial_that_saves_no_more_keeps_what_it_has(tmp_path: Path) -> None:
    given = sweep(tmp_path, room=4.0, **FEW)
    planned = min(each.segment_steps for each in given.plan.candidates if each.pilot_steps)
    lost = wasted(run(given, every=planned, last=planned))
    trials = rows(given, Trial)
    assert lost
    assert {trial.state for trial in trials} == {TrialState.PRUNED}
    assert all(sum(each) <= 2 * given.spec.pilot_gpu_hours / len(trials) for each in lost.values())
    assert any("ended before a save" in each.reason for each in rows(given, Decision) if each.action == "prune")


def test_a_budget_that_only_pays_for_a_start_is_no_failure_of_the_trainer(tmp_path: Path) -> None:
    slow = SimulationChoice(costs=COSTS.model_copy(update={"start_up_seconds": 1e6}))
    given = sweep(tmp_path, choice=slow, **FEW)
    lost = wasted(run(given, every=1))
    assert all(len(each) == 1 for each in lost.values())
    assert not {trial.state for trial in rows(given, Trial)} & {TrialState.FAILED}
