"""A driver's trials that fail, or whose workers or folder are lost: which are tried again, when, and how often."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import NotFoundError
from planner.policy.policies import open_policy
from planner.store.schema import Decision, Recommendation, Segment, SegmentOutcome, SweepStatus, Transition, Trial
from planner.view import TrialState
from runner.ports.executor import Began, Event, Failed, Progress, Work
from runner.sweep.home import MARK, require_mark
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.runner.sweep.test_driver import ROOM, failing, rows, run_until_killed, sweep
from tests.simulated.executor import BEGINNING, SimulatedClock, SimulatedExecutor


def at(seconds: float) -> datetime:
    return BEGINNING + timedelta(seconds=seconds)


def test_a_trial_that_fails_is_a_result_and_stops_nothing_else(tmp_path: Path) -> None:
    given = sweep(tmp_path, choice=failing(most_rollouts=200))
    outcome = given.run(open_policy("full"))
    trials = rows(given, Trial)
    too_large = {t.name for t in trials if t.rollouts_per_prompt * t.prompts_per_batch > 200}
    assert {t.name for t in trials if t.state is TrialState.FAILED} == too_large
    assert {t.failure_class for t in trials if t.state is TrialState.FAILED} == {"out-of-memory"}
    assert all(t.state is TrialState.FINISHED for t in trials if t.name not in too_large)
    assert (outcome.status, outcome.failed_trials, outcome.all_failed) == (SweepStatus.FINISHED, len(too_large), None)
    assert {t.attempt for t in trials} == {1}  # what would fail again is not tried again


def test_when_everything_fails_the_sweep_ends_early_and_says_why(tmp_path: Path) -> None:
    given = sweep(tmp_path, choice=failing(at_step=2, at_step_kind="nan"), workers=2)
    outcome = given.run(open_policy("full"))
    states = [trial.state for trial in rows(given, Trial)]
    assert outcome.all_failed == "nan"
    assert 3 <= states.count(TrialState.FAILED) < len(states)
    assert rows(given, Decision)[-1].reason == "every trial that ran has failed, and none has got anywhere"
    assert rows(given, Recommendation) == []


class Unreadable(SimulatedExecutor):
    """Its trainer's metrics cannot be read: every trial fails when its first points come."""

    def wait(self, seconds: float) -> Sequence[Event]:
        return [
            Failed(each.segment, each.worker, each.worker_seconds, "metrics", "no score came")
            if isinstance(each, Progress)
            else each
            for each in super().wait(seconds)
        ]


def test_metrics_that_cannot_be_read_end_the_sweep_with_the_first_trial(tmp_path: Path) -> None:
    given = sweep(tmp_path, workers=1)
    outcome = given.drive(Unreadable(1))
    assert (outcome.status, outcome.failed_trials, outcome.all_failed) == (SweepStatus.FAILED, 1, "metrics")
    assert outcome.spent_gpu_hours < given.spec.pilot_gpu_hours / 10
    assert "cannot be read as its settings have it" in rows(given, Decision)[-1].reason


def test_lost_workers_are_tried_again_a_bounded_number_of_times(tmp_path: Path) -> None:
    given = sweep(tmp_path, choice=failing(lost_per_gpu_hour=1e5), retries=2, workers=2)
    outcome = given.run(open_policy("full"))
    failed = [trial for trial in rows(given, Trial) if trial.state is TrialState.FAILED]
    assert len(failed) >= 3
    assert {(trial.failure_class, trial.attempt) for trial in failed} == {("lost", 3)}
    assert outcome.all_failed == "lost"
    waits = [decision.seen["wait_seconds"] for decision in rows(given, Decision) if decision.action == "retry"]
    assert set(waits) == {2.0, 4.0}


def recorded(given: SimulatedSweep, segment: int, *, over: bool) -> None:
    """Leave the record of a worker on another host that has a segment."""
    record = {"worker": "far-1", "seconds": 9.0, "slots": 1, "segment": segment, "over": over, "host": "far"}
    folder = Path(given.spec.folder) / "workers"
    folder.mkdir(parents=True)
    (folder / "far-1.json").write_text(json.dumps(record))


@pytest.mark.parametrize(("last_word", "waits"), [(False, 15.0), (True, 0.0)])
def test_a_trial_whose_former_worker_may_still_write_waits_for_its_end(
    tmp_path: Path, last_word: bool, waits: float
) -> None:
    given = sweep(tmp_path, room=ROOM)
    run_until_killed(given, 4, 1)
    first = next(each for each in rows(given, Segment) if each.outcome is SegmentOutcome.RESERVED)
    recorded(given, first.id, over=last_word)
    later, looks = SimulatedClock(), count(1)
    later.advance_to(3600.0)
    executor = given.executor(clock=later)
    given.drive(executor, interrupted=lambda: next(looks) > 20)
    moves = [each for each in rows(given, Transition) if each.from_state is TrialState.LOST]
    (ready,) = [each.at for each in moves if each.trial_id == first.trial_id]
    assert at(3600.0 + waits) <= ready <= at(3600.0 + waits + 10.0)
    assert all(each.at == at(3600.0) for each in moves if each.trial_id != first.trial_id)


class Deaf(SimulatedExecutor):
    """It hears nothing of its first segment, which a worker that is cut off has taken, and gives it up."""

    deaf_to: int | None = None

    def assign(self, work: Work) -> None:
        super().assign(work)
        if self.deaf_to is None:
            self.deaf_to = work.segment
            self._due.append(Failed(work.segment, None, 0.0, "lost", "the link was cut"))

    def wait(self, seconds: float) -> Sequence[Event]:
        return [each for each in super().wait(seconds) if not isinstance(each, Began) or each.segment != self.deaf_to]


def test_a_segment_that_was_given_up_unheard_is_not_given_again_while_somebody_has_it(tmp_path: Path) -> None:
    given, looks = sweep(tmp_path), count(1)
    recorded(given, 1, over=False)
    executor = Deaf(given.workers)
    given.drive(executor, interrupted=lambda: next(looks) > 20)
    assert executor.deaf_to == 1
    of_it = [each for each in rows(given, Transition) if each.trial_id == rows(given, Segment)[0].trial_id]
    lost = next(each for each in of_it if each.to_state is TrialState.LOST)
    again = next(each for each in of_it if each.from_state is TrialState.LOST)
    assert again.at - lost.at >= timedelta(seconds=15)


class Ailing(SimulatedExecutor):
    """What would be lost fails, as where the folder of all trials is read-only for a moment."""

    failures = 0

    def wait(self, seconds: float) -> Sequence[Event]:
        words = "the trainer ended with exit code 1: OSError: [Errno 30] Read-only file system: 'metrics.jsonl'"
        events = super().wait(seconds)
        self.failures += sum(isinstance(event, Failed) for event in events)
        return [replace(each, kind="error", message=words) if isinstance(each, Failed) else each for each in events]


def test_a_storage_that_ails_for_a_moment_fails_no_trial(tmp_path: Path) -> None:
    given = sweep(tmp_path, choice=failing(lost_per_gpu_hour=20), retries=50)
    executor = Ailing(given.workers)
    assert given.drive(executor).failed_trials == 0
    assert executor.failures


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a folder")
def test_a_folder_that_is_read_only_is_no_folder_of_a_sweep_that_runs(tmp_path: Path) -> None:
    (tmp_path / MARK).touch()
    require_mark(tmp_path)
    program = "import pathlib, sys, runner.sweep.home as home; home.require_mark(pathlib.Path(sys.argv[1]))"
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" -c "$3" "$1"'
    arguments = [str(tmp_path), sys.executable, program]
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", *arguments], capture_output=True, text=True, check=False
    )
    assert "NotFoundError" in ended.stderr, ended.stderr
    assert "it is read-only" in ended.stderr


class Unlucky(SimulatedExecutor):
    """Its losses are of another kind; with `saves` each attempt saves a little more than the one before."""

    kind, saves = "lost", False

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.folders: dict[int, Path] = {}

    def assign(self, work: Work) -> None:
        self.folders[work.segment] = Path(work.folder)
        super().assign(work)

    def wait(self, seconds: float) -> Sequence[Event]:
        events = super().wait(seconds)
        lost = [each for each in events if isinstance(each, Failed)]
        for each in lost if self.saves else []:
            self.folders[each.segment].mkdir(parents=True, exist_ok=True)
            (self.folders[each.segment] / f"checkpoint-{each.segment:08d}.json").write_text("")
        return [replace(each, kind=self.kind) if each in lost else each for each in events]


@pytest.mark.parametrize(
    ("kind", "saves", "ends"), [("lost", True, False), ("preempted", False, False), ("hang", False, True)]
)
def test_retries_end_where_an_attempt_gets_no_further(tmp_path: Path, kind: str, saves: bool, ends: bool) -> None:
    given = sweep(tmp_path, choice=failing(lost_per_gpu_hour=1e5), retries=1, workers=2)
    executor, looks = Unlucky(given.workers), count(1)
    executor.kind, executor.saves = kind, saves
    given.drive(executor, interrupted=lambda: next(looks) > 110)
    attempts = [trial.attempt for trial in rows(given, Trial) if trial.state is TrialState.FAILED]
    assert attempts == [2] * len(attempts) if ends else attempts == []
    assert max(trial.attempt for trial in rows(given, Trial)) >= (2 if ends else 3)


@pytest.mark.parametrize(("seconds", "status"), [(40.0, SweepStatus.INTERRUPTED), (90.0, None)])
def test_a_folder_that_is_away_for_a_moment_stops_nothing(
    tmp_path: Path, seconds: float, status: SweepStatus | None
) -> None:
    given = sweep(tmp_path, room=ROOM, budget=2.0)
    executor = given.executor()
    failed: list[int] = []
    looks = count(1)

    def require() -> None:
        if not 20.0 <= executor.clock.seconds() < 20.0 + seconds:
            return
        if not failed:
            failed.append(next(iter(executor._running)))
            executor._due.append(Failed(failed[0], None, 0.0, "error", "no such file"))
        raise NotFoundError("the folder is gone")

    with given.store() as store:
        options = {"require_folder": require, "interrupted": lambda: next(looks) > 120}
        running = given.driver(executor, open_policy("full"), store, **options)
        if status is None:
            with pytest.raises(NotFoundError, match="the folder is gone"):
                running.run()
        else:
            assert running.run().status is status
            assert [each.seen["kind"] for each in rows(given, Decision) if each.action == "retry"] == ["lost"]
    assert all(trial.state is not TrialState.FAILED for trial in rows(given, Trial))


def test_a_driver_that_goes_on_knows_how_often_a_trial_has_failed(tmp_path: Path) -> None:
    given = sweep(tmp_path, choice=failing(lost_per_gpu_hour=1e5), retries=2, workers=2)
    for number in range(1, 4):
        run_until_killed(given, 1, number)  # kills of the driver are no failures of a trial
    given.run(open_policy("full"))
    retries = [(each.trial_id, each.seen["failures"]) for each in rows(given, Decision) if each.action == "retry"]
    failed = [trial.id for trial in rows(given, Trial) if trial.state is TrialState.FAILED]
    assert failed
    assert all([count for of, count in retries if of == trial] == [1, 2] for trial in failed)
