"""A driver in a simulated world: what it stores, spends and survives."""

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from budgets.errors import NotFoundError, StoreError, StoreUnavailableError
from planner.pooling.pool import Pool
from planner.store import Store, open_store
from planner.store.driving import LeaseLostError, take_lease
from planner.store.schema import (
    Charge,
    Decision,
    Point,
    Recommendation,
    Segment,
    SegmentOutcome,
    Sweep,
    SweepStatus,
    Transition,
    Trial,
)
from planner.store.standing import standing
from planner.sweeping.actions import Action, Stop
from planner.sweeping.informed import InformedPolicy
from planner.sweeping.policies import POLICIES, open_policy
from planner.trials import MOVES, TrialState
from planner.view import View
from runner.ports.executor import Began, Event, Failed, NoRoomError, Work
from runner.ports.simulation import Costs, Failures, SimulationChoice
from runner.simulation.executor import BEGINNING, SimulatedClock, SimulatedExecutor
from runner.sweep import journal
from runner.sweep.concluding import Conclusions
from runner.sweep.driver import SweepDriver
from tests.runner.simulation.faulty import FaultyExecutor
from tests.runner.sweep.simulated_sweeps import START, SimulatedSweep, driver

# What the plan of these sweeps takes an update and a validation to cost, so that no segment is cut short.
COSTS = Costs(
    seconds_per_update=0.0217, seconds_per_rollout=0.00141, seconds_per_answer=0.00015, start_up_seconds=3.0, spread=0.0
)
ROOM = 3.0  # times the planned budget: an interruption then costs money and nothing else
PLAIN = SimulationChoice(costs=COSTS)


def sweep(folder: Path, **changes: Any) -> SimulatedSweep:
    return SimulatedSweep(folder / "rlplan.db", **{"choice": PLAIN, "every_steps": 50, **changes})


def failing(**failures: Any) -> SimulationChoice:
    return SimulationChoice(costs=COSTS, failures=Failures(**failures))


def at(seconds: float) -> datetime:
    return BEGINNING + timedelta(seconds=seconds)


def rows(given: SimulatedSweep, table: type) -> list[Any]:
    with given.store() as store, store.read() as session:
        return list(session.scalars(select(table)))


def spent(given: SimulatedSweep) -> float:
    with given.store() as store, store.read() as session:
        segments = session.scalar(select(func.sum(Segment.charged_gpu_hours))) or 0.0
        return segments + (session.scalar(select(func.sum(Charge.gpu_hours))) or 0.0)


def essence(given: SimulatedSweep) -> dict[str, Any]:
    """Return what an interruption must not change: trials, their scores, their committed segments."""
    found: dict[str, Any] = {}
    with given.store() as store, store.read() as session:
        stands = standing(session, given.name)
    for trial in stands.trials:
        points = [(each.step, each.score, each.gpu_hours) for each in stands.scores[trial.id]]
        found[trial.name] = {"state": trial.state, "points": points, "segments": []}
    names = {trial.id: trial.name for trial in rows(given, Trial)}
    for segment in rows(given, Segment):
        if segment.outcome is SegmentOutcome.COMMITTED:
            found[names[segment.trial_id]]["segments"].append((segment.from_step, segment.to_step))
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_ends_within_the_budget_and_stores_all(tmp_path: Path, policy: str) -> None:
    given = sweep(tmp_path, policy=policy)
    outcome = given.run(open_policy(policy))
    assert outcome.status is SweepStatus.FINISHED
    assert outcome.overrun_gpu_hours == 0
    assert spent(given) == pytest.approx(outcome.spent_gpu_hours)
    assert 0 < spent(given) <= given.spec.pilot_gpu_hours
    assert all(segment.outcome is SegmentOutcome.COMMITTED for segment in rows(given, Segment))
    assert all(segment.worker for segment in rows(given, Segment))
    assert all(segment.start_up_gpu_hours is None for segment in rows(given, Segment))  # our trainer keeps to the plan
    for trial, found in essence(given).items():
        ends = [end for _, end in found["segments"]]
        assert [begin for begin, _ in found["segments"]] == [0, *ends][:-1] if ends else True, trial
    (stored,) = rows(given, Sweep)
    assert (stored.status, stored.driver_id, stored.finished_at is None) == (SweepStatus.FINISHED, None, False)
    (recommended,) = rows(given, Recommendation)
    assert 0 <= recommended.score_low <= recommended.expected_score <= recommended.score_high <= 1
    assert "P(best)" in recommended.details["reason"]
    numbers = [decision.number for decision in rows(given, Decision)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert all(decision.reason for decision in rows(given, Decision))
    for move in rows(given, Transition):
        assert move.from_state is None or move.to_state in MOVES[move.from_state]


class KilledError(Exception):
    """A driver's process ends here, without another word."""


class Mortal(SimulatedExecutor):
    """An executor whose driver dies after so many calls."""

    lives = 10**9

    def wait(self, seconds: float) -> Sequence[Event]:
        self.lives -= 1
        if self.lives < 0:
            raise KilledError
        return super().wait(seconds)


def run_until_killed(given: SimulatedSweep, waits: int, number: int) -> bool:
    """Run a driver that dies after so many waits; whether it got to the end before."""
    executor = Mortal(None, given.workers)
    executor.lives = waits
    with given.store() as store:
        running = given.driver(executor, open_policy("full"), store, number)
        try:
            running._turns()
        except KilledError:
            return False
    return True


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    given = sweep(tmp_path_factory.mktemp("undisturbed"), room=ROOM)
    given.run(open_policy("full"))
    return essence(given)


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kills=st.lists(st.integers(0, 60), min_size=2, max_size=6))
def test_killed_drivers_change_nothing_but_the_bill(
    tmp_path_factory: pytest.TempPathFactory, undisturbed: dict[str, Any], kills: list[int]
) -> None:
    given = sweep(tmp_path_factory.mktemp("killed"), room=ROOM)
    for number, waits in enumerate(kills, start=1):
        run_until_killed(given, waits, number)
    outcome = given.run(open_policy("full"))
    assert outcome.status is SweepStatus.FINISHED
    assert essence(given) == undisturbed
    assert spent(given) <= given.spec.pilot_gpu_hours
    outcomes = {segment.outcome for segment in rows(given, Segment)}
    assert outcomes <= {SegmentOutcome.COMMITTED, SegmentOutcome.LOST}
    keys = [(point.trial_id, point.optimizer_step, point.attempt) for point in rows(given, Point)]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(("waits", "least", "most"), [(0, 0.0, 0.0), (4, 1.0, 20.0)])
def test_a_dead_driver_is_charged_what_its_workers_used_however_late_it_is_replaced(
    tmp_path: Path, waits: int, least: float, most: float
) -> None:
    """What no worker had taken costs nothing, and else only the time until the driver fell silent counts."""
    given = sweep(tmp_path)
    assert not run_until_killed(given, waits, 1)
    later = SimulatedClock()
    later.advance_to(3600.0)
    with given.store() as store:
        given.driver(given.executor(clock=later), open_policy("full"), store)
    lost = [segment for segment in rows(given, Segment) if segment.outcome is SegmentOutcome.LOST]
    assert len(lost) == given.workers
    assert all(least <= 3600 * segment.charged_gpu_hours <= most for segment in lost)


@pytest.mark.parametrize("looks", [0, 25])
def test_an_interrupted_sweep_saves_what_runs_and_goes_on_where_it_was(
    tmp_path: Path, undisturbed: dict[str, Any], looks: int
) -> None:
    given = sweep(tmp_path, room=ROOM)
    with given.store() as store:
        asked = chain(repeat(False, looks), repeat(True))
        running = given.driver(given.executor(), open_policy("full"), store, interrupted=lambda: next(asked))
        outcome = running.run()
    assert outcome.status is SweepStatus.INTERRUPTED
    assert {trial.state for trial in rows(given, Trial)} <= {TrialState.PLANNED, TrialState.PAUSED, TrialState.FINISHED}
    assert {segment.outcome for segment in rows(given, Segment)} <= {SegmentOutcome.COMMITTED}
    (stored,) = rows(given, Sweep)
    assert (stored.status, stored.driver_id) == (SweepStatus.INTERRUPTED, None)
    given.run(open_policy("full"))
    after = essence(given)
    assert {name: found["points"] for name, found in after.items()} == {
        name: found["points"] for name, found in undisturbed.items()
    }


class Stumbling(Conclusions):
    """Its fits fail in the middle of a sweep, as a Cholesky may."""

    def fits(self, *_: Any) -> None:
        raise np.linalg.LinAlgError("Singular matrix")


def test_a_fit_that_fails_ends_nothing_and_is_noted_once(tmp_path: Path) -> None:
    given = sweep(tmp_path, room=ROOM)
    with given.store() as store:
        running = given.driver(given.executor(), open_policy("full"), store)
        running._conclusions = Stumbling(Pool(), given.spec)
        assert running.run().status is SweepStatus.FINISHED
    (noted,) = [each for each in rows(given, Decision) if each.action == "left-out"]
    assert noted.reason.startswith("the fits of the curves were left out: LinAlgError: Singular matrix")
    assert all(trial.state is TrialState.FINISHED for trial in rows(given, Trial))


def test_an_error_in_a_turn_saves_what_runs_before_it_ends_the_sweep(tmp_path: Path) -> None:
    given = sweep(tmp_path, room=ROOM)
    turns = count(1)

    def failing_at_last() -> bool:
        if next(turns) == 6:
            raise RuntimeError("a mistake of ours")
        return False

    with given.store() as store:
        running = given.driver(given.executor(), open_policy("full"), store, interrupted=failing_at_last)
        with pytest.raises(RuntimeError, match="a mistake of ours"):
            running.run()
    assert {segment.outcome for segment in rows(given, Segment)} == {SegmentOutcome.COMMITTED}
    (stored,) = rows(given, Sweep)
    assert (stored.status, stored.driver_id) == (SweepStatus.INTERRUPTED, None)
    given.run(open_policy("full"))
    assert all(trial.state is TrialState.FINISHED for trial in rows(given, Trial))


class Rude(Mortal):
    """The user's second Ctrl-C comes while the driver waits."""

    def wait(self, seconds: float) -> Sequence[Event]:
        try:
            return super().wait(seconds)
        except KilledError:
            raise KeyboardInterrupt from None


def test_a_second_interrupt_stops_at_once_and_charges_what_was_used(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    given = sweep(tmp_path, room=ROOM)
    executor = Rude(None, given.workers)
    executor.lives = 9
    with given.store() as store:
        outcome = given.driver(executor, open_policy("full"), store).run()
    assert outcome.status is SweepStatus.INTERRUPTED
    lost = [segment for segment in rows(given, Segment) if segment.outcome is SegmentOutcome.LOST]
    assert len(lost) == 4
    assert all(segment.charged_gpu_hours > 0 for segment in lost)
    given.run(open_policy("full"))
    assert essence(given) == undisturbed


def test_a_lost_node_and_its_late_reports(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    given = sweep(tmp_path, room=ROOM)
    executor = FaultyExecutor(None, given.workers)

    looks = count(1)

    def losing() -> bool:
        """Lose a node at the fifth look, and have the clock jump an hour back."""
        if next(looks) == 5:
            executor.lose_workers(2, late=True)
            executor.jumping.jumped = -3600
        return False

    with given.store() as store:
        outcome = given.driver(executor, open_policy("full"), store, interrupted=losing).run()
    assert outcome.status is SweepStatus.FINISHED
    assert sum(segment.outcome is SegmentOutcome.LOST for segment in rows(given, Segment)) == 2
    actions = [decision.action for decision in rows(given, Decision)]
    assert actions.count("retry") == 2
    assert actions.count("ignored") == 2
    found = essence(given)
    assert {name: each["segments"] for name, each in found.items()} == {
        name: each["segments"] for name, each in undisturbed.items()
    }
    assert {name: [p[:2] for p in each["points"]] for name, each in found.items()} == {
        name: [p[:2] for p in each["points"]] for name, each in undisturbed.items()
    }


class Shrunk(SimulatedExecutor):
    """Its cluster came back with less room than it had when the driver last looked."""

    refuses = 2

    def assign(self, work: Work) -> None:
        if self.refuses:
            self.refuses -= 1
            raise NoRoomError("all 1 workers have one")
        super().assign(work)


def test_what_finds_no_room_goes_back_unharmed_and_uncharged(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    given = sweep(tmp_path, retries=0, room=ROOM)
    with given.store() as store:
        outcome = given.driver(Shrunk(None, given.workers), open_policy("full"), store).run()
    assert (outcome.status, outcome.failed_trials) == (SweepStatus.FINISHED, 0)
    back = [segment for segment in rows(given, Segment) if segment.outcome is SegmentOutcome.LOST]
    assert [segment.charged_gpu_hours for segment in back] == [0.0, 0.0]
    assert [each.action for each in rows(given, Decision)].count("no-room") == 2
    assert {name: each["segments"] for name, each in essence(given).items()} == {
        name: each["segments"] for name, each in undisturbed.items()
    }


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
    with given.store() as store:
        executor = given.executor(clock=later)
        given.driver(executor, open_policy("full"), store, interrupted=lambda: next(looks) > 20).run()
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
    with given.store() as store:
        executor = Deaf(None, given.workers)
        given.driver(executor, open_policy("full"), store, interrupted=lambda: next(looks) > 20).run()
    assert executor.deaf_to == 1
    of_it = [each for each in rows(given, Transition) if each.trial_id == rows(given, Segment)[0].trial_id]
    lost = next(each for each in of_it if each.to_state is TrialState.LOST)
    again = next(each for each in of_it if each.from_state is TrialState.LOST)
    assert again.at - lost.at >= timedelta(seconds=15)


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
    executor, looks = Unlucky(None, given.workers), count(1)
    executor.kind, executor.saves = kind, saves
    with given.store() as store:
        given.driver(executor, open_policy("full"), store, interrupted=lambda: next(looks) > 110).run()
    attempts = [trial.attempt for trial in rows(given, Trial) if trial.state is TrialState.FAILED]
    assert attempts == [2] * len(attempts) if ends else attempts == []
    assert max(trial.attempt for trial in rows(given, Trial)) >= (2 if ends else 3)


@pytest.mark.parametrize(("seconds", "status"), [(40.0, SweepStatus.INTERRUPTED), (90.0, None)])
def test_a_folder_that_is_away_for_a_moment_stops_nothing(
    tmp_path: Path, seconds: float, status: SweepStatus | None
) -> None:
    given = sweep(tmp_path, room=ROOM)
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
        options = {"require_folder": require, "interrupted": lambda: next(looks) > 60}
        running = given.driver(executor, open_policy("full"), store, **options)
        if status is None:
            with pytest.raises(NotFoundError, match="the folder is gone"):
                running.run()
        else:
            assert running.run().status is status
            assert [each.seen["kind"] for each in rows(given, Decision) if each.action == "retry"] == ["lost"]
    assert all(trial.state is not TrialState.FAILED for trial in rows(given, Trial))


class Crowded(SimulatedExecutor):
    """Others hold all of the cluster at first."""

    @property
    def workers(self) -> int:
        return 0 if self.clock.seconds() < 200 else super().workers


def test_a_sweep_that_finds_no_room_says_so_once(tmp_path: Path) -> None:
    given, looks = sweep(tmp_path), count(1)
    with given.store() as store:
        crowded = Crowded(None, given.workers)
        given.driver(crowded, open_policy("full"), store, interrupted=lambda: next(looks) > 120).run()
    (noted,) = [each for each in rows(given, Decision) if each.action == "waiting"]
    assert noted.reason.startswith("nothing has run for 60 s: no worker is free. A worker needs 0 GPUs and 1 CPUs;")


class Silent:
    """Ends every trial as the full grid does, and has no word for the end."""

    name = "silent"

    def __init__(self) -> None:
        self._full = open_policy("full")

    def decide(self, view: View) -> Sequence[Action]:
        return [each for each in self._full.decide(view) if not isinstance(each, Stop)]


def test_a_sweep_whose_trials_have_all_ended_says_so_and_blames_no_money(tmp_path: Path) -> None:
    given = sweep(tmp_path, budget=0.5, choice=failing(most_rollouts=200), room=ROOM)
    given.run(Silent())
    (said,) = [each.reason for each in rows(given, Decision) if each.action == "stop"]
    assert re.fullmatch(r"every trial has ended: \d finished, \d failed \(out-of-memory\)", said)


def test_a_driver_that_goes_on_knows_how_often_a_trial_has_failed(tmp_path: Path) -> None:
    given = sweep(tmp_path, choice=failing(lost_per_gpu_hour=1e5), retries=2, workers=2)
    for number in range(1, 4):
        run_until_killed(given, 1, number)  # kills of the driver are no failures of a trial
    given.run(open_policy("full"))
    retries = [(each.trial_id, each.seen["failures"]) for each in rows(given, Decision) if each.action == "retry"]
    failed = [trial.id for trial in rows(given, Trial) if trial.state is TrialState.FAILED]
    assert failed
    assert all([count for of, count in retries if of == trial] == [1, 2] for trial in failed)


def refusing(patch: pytest.MonkeyPatch, refusals: Iterator[bool]) -> None:
    """Have a store refuse to be written as these say, and then no more."""
    write = Store.write

    def written(self: Store) -> Any:
        if next(refusals, False):
            raise StoreUnavailableError("it is locked")
        return write(self)

    patch.setattr(Store, "write", written)


def test_a_database_that_is_locked_for_a_while_loses_nothing_and_says_so(
    tmp_path: Path, undisturbed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, said = sweep(tmp_path, room=ROOM), list[str]()
    monkeypatch.setattr(journal.time, "sleep", lambda _: None)
    with given.store() as store:
        running = given.driver(given.executor(), open_policy("full"), store, say=said.append)
        refusing(monkeypatch, iter([False] * 5 + [True] * 4 + [False] * 3 + [True] * 2))
        assert running.run().status is SweepStatus.FINISHED
    assert said == ["it is locked. It is tried again for 10 minutes; until then nothing new begins"] * 2
    assert {name: each["points"] for name, each in essence(given).items()} == {
        name: each["points"] for name, each in undisturbed.items()
    }


def test_a_full_database_holds_neither_the_user_nor_idle_workers_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, said, looks, released = sweep(tmp_path, room=ROOM), list[str](), count(1), list[int]()
    executor = given.executor()
    monkeypatch.setattr(executor, "release", lambda: released.append(next(looks)))
    with given.store() as store, pytest.MonkeyPatch.context() as patch:
        running = given.driver(
            executor, open_policy("full"), store, say=said.append, interrupted=lambda: next(looks) > 150
        )
        refusing(patch, chain([False] * 2, repeat(True)))
        with pytest.raises(StoreUnavailableError, match=r"it is locked.*not saved: `rlplan resume` settles it"):
            running.run()
    assert 2 <= len(said) < 10
    assert released
    assert given.run(open_policy("full")).status is SweepStatus.FINISHED


@pytest.mark.parametrize("replaced", [False, True])
def test_a_database_that_is_deleted_or_replaced_under_a_driver_is_rescued(tmp_path: Path, replaced: bool) -> None:
    given, looks = sweep(tmp_path, room=ROOM), count(1)
    other = tmp_path / "other.db"
    with open_store(other):
        pass

    def gone() -> bool:
        if next(looks) == 10:
            for path in tmp_path.glob("rlplan.db*"):
                if not replaced:
                    path.unlink()
            if replaced:
                other.rename(given.path)
        return False

    with given.store() as store:
        running = given.driver(given.executor(), open_policy("full"), store, interrupted=gone)
        with pytest.raises(StoreError, match=r"deleted, moved or replaced.* saved in .*rlplan\.db\.rescued-"):
            running.run()
    (rescued,) = tmp_path.glob("rlplan.db.rescued-*")
    if replaced:
        with closing(sqlite3.connect(given.path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("SELECT count(*) FROM sweeps").fetchone() == (0,)
    rescued.rename(given.path)
    assert {segment.outcome for segment in rows(given, Segment)} == {SegmentOutcome.COMMITTED}
    assert [each.status for each in rows(given, Sweep)] == [SweepStatus.INTERRUPTED]


def test_a_driver_that_lost_its_sweep_before_its_first_turn_settles_nothing(tmp_path: Path) -> None:
    given = sweep(tmp_path)
    run_until_killed(given, 4, number=2)
    before = state(given.path)
    conclusions = Conclusions(Pool(), given.spec)
    with given.store() as store, pytest.raises(LeaseLostError, match="was taken over by process 2 on here"):
        SweepDriver(store, given.name, driver(1), given.spec, given.executor(), open_policy("full"), conclusions)
    assert before == state(given.path)


def test_a_driver_whose_sweep_was_taken_over_stores_nothing_more(tmp_path: Path) -> None:
    given = sweep(tmp_path)

    looks, before = count(1), []

    def taken_over() -> bool:
        if next(looks) == 4:
            with store.write() as session:
                take_lease(session, given.name, driver(2), START, former_is_dead=True)
            before.append(state(given.path))
        return False

    with given.store() as store:
        running = given.driver(given.executor(), open_policy("full"), store, interrupted=taken_over)
        with pytest.raises(LeaseLostError, match="was taken over by process 2 on here"):
            running.run()
    assert before == [state(given.path)]


def state(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        tables = ("segments", "points", "transitions", "decisions", "charges", "sweeps")
        return [connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


@pytest.mark.parametrize(("budget", "workers"), [(0.03, 1), (0.06, 2), (0.2, 2)])
def test_a_small_budget_starts_pilots(tmp_path: Path, budget: float, workers: int) -> None:
    given = SimulatedSweep(tmp_path / "small.db", budget=budget, workers=workers, policy="rlplan")
    outcome = given.run(InformedPolicy())
    assert outcome.spent_gpu_hours > 0
    with given.store() as store, store.read() as session:
        segments = [each for ended in standing(session, given.name).segments.values() for each in ended]
    assert any(each.outcome is SegmentOutcome.COMMITTED for each in segments)
