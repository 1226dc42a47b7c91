"""A driver in a simulated world: what it stores, spends and survives."""

import re
from collections.abc import Sequence
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from planner.policy.actions import Action, Stop
from planner.policy.informed import InformedPolicy
from planner.policy.policies import POLICIES, open_policy
from planner.store.read_model import sweep_snapshot
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
from planner.view import MOVES, TrialState, View
from runner.ports.executor import Event, NoRoomError, Work
from runner.ports.trial import Costs, Failures, SimulationChoice
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.simulated.executor import SimulatedClock, SimulatedExecutor
from tests.simulated.faulty import FaultyExecutor

# What the plan of these sweeps takes an update and a validation to cost, so that no segment is cut short.
COSTS = Costs(
    seconds_per_update=0.0217, seconds_per_rollout=0.00141, seconds_per_answer=0.00015, start_up_seconds=3.0, spread=0.0
)
ROOM = 3.0  # times the planned budget: an interruption then costs money and nothing else
PLAIN = SimulationChoice(costs=COSTS)


def sweep(folder: Path, **changes: Any) -> SimulatedSweep:
    return SimulatedSweep(folder / "rlplan.db", **{"choice": PLAIN, "every_steps": 50, "budget": 1.0, **changes})


def failing(**failures: Any) -> SimulationChoice:
    return SimulationChoice(costs=COSTS, failures=Failures(**failures))


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
        stands = sweep_snapshot(session, given.name)
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
    assert "likely the best" in recommended.details["reason"]
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
    executor = Mortal(given.workers)
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


class Deliberate(SimulatedExecutor):
    """What is asked to stop takes five minutes until it has saved."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self._asked: dict[int, float] = {}

    def stop(self, segment: int) -> None:
        self._asked.setdefault(segment, self.clock.seconds())

    def wait(self, seconds: float) -> Sequence[Event]:
        for segment, asked in self._asked.items():
            if self.clock.seconds() - asked > 300.0:
                super().stop(segment)
        return super().wait(seconds)


def test_an_error_in_a_turn_saves_what_runs_before_it_ends_the_sweep(tmp_path: Path) -> None:
    """As after an interrupt, a trainer has `pause_seconds` beside its `stop_seconds` for that."""
    slow = SimulationChoice(costs=COSTS.model_copy(update={"seconds_per_update": 10.0}))
    given = sweep(tmp_path, room=1000 * ROOM, choice=slow, trainer="standin")
    executor = Deliberate(given.workers)

    def failing_at_last() -> bool:
        if executor.clock.seconds() > 400.0:
            raise RuntimeError("a mistake of ours")
        return False

    with given.store() as store:
        running = given.driver(executor, open_policy("full"), store, interrupted=failing_at_last, tick_seconds=20.0)
        with pytest.raises(RuntimeError, match="a mistake of ours"):
            running.run()
    assert {segment.outcome for segment in rows(given, Segment)} == {SegmentOutcome.COMMITTED}
    (stored,) = rows(given, Sweep)
    assert (stored.status, stored.driver_id) == (SweepStatus.INTERRUPTED, None)


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
    executor = Rude(given.workers)
    executor.lives = 9
    outcome = given.drive(executor)
    assert outcome.status is SweepStatus.INTERRUPTED
    lost = [segment for segment in rows(given, Segment) if segment.outcome is SegmentOutcome.LOST]
    assert len(lost) == 4
    assert all(segment.charged_gpu_hours > 0 for segment in lost)
    retries = [decision for decision in rows(given, Decision) if decision.action == "retry"]
    assert [each.seen["failures"] for each in retries] == [0] * 4  # who stops thrice has no failed trial
    assert {each.reason for each in retries} == {"stopped at once: what it had not saved is lost"}
    given.run(open_policy("full"))
    assert essence(given) == undisturbed


def test_a_lost_node_and_its_late_reports(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    given = sweep(tmp_path, room=ROOM)
    executor = FaultyExecutor(given.workers)

    looks = count(1)

    def losing() -> bool:
        """Lose a node at the fifth look, and have the clock jump an hour back."""
        if next(looks) == 5:
            executor.lose_workers(2, late=True)
            executor.jumping.jumped = -3600
        return False

    outcome = given.drive(executor, interrupted=losing)
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
    outcome = given.drive(Shrunk(given.workers))
    assert (outcome.status, outcome.failed_trials) == (SweepStatus.FINISHED, 0)
    back = [segment for segment in rows(given, Segment) if segment.outcome is SegmentOutcome.LOST]
    assert [segment.charged_gpu_hours for segment in back] == [0.0, 0.0]
    assert [each.action for each in rows(given, Decision)].count("no-room") == 2
    assert {name: each["segments"] for name, each in essence(given).items()} == {
        name: each["segments"] for name, each in undisturbed.items()
    }


class Crowded(SimulatedExecutor):
    """Others hold all of the cluster at first."""

    @property
    def workers(self) -> int:
        return 0 if self.clock.seconds() < 200 else super().workers


def test_a_sweep_that_finds_no_room_says_so_once(tmp_path: Path) -> None:
    given, looks = sweep(tmp_path), count(1)
    with given.store() as store:
        crowded = Crowded(given.workers)
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


@pytest.mark.parametrize(("budget", "workers"), [(0.03, 1), (0.06, 2), (0.2, 2)])
def test_a_small_budget_starts_pilots(tmp_path: Path, budget: float, workers: int) -> None:
    given = SimulatedSweep(tmp_path / "small.db", budget=budget, workers=workers, policy="rlplan")
    outcome = given.run(InformedPolicy())
    assert outcome.spent_gpu_hours > 0
    with given.store() as store, store.read() as session:
        segments = [each for ended in sweep_snapshot(session, given.name).segments.values() for each in ended]
    assert any(each.outcome is SegmentOutcome.COMMITTED for each in segments)
