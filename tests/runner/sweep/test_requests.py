"""A running sweep that is asked to pause, to go on and to stop, in a simulated world."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from budgets.errors import StoreUnavailableError
from planner.store import Store, driving
from planner.store.driving import request
from planner.store.schema import Decision, Request, RequestKind, Segment, SegmentOutcome, Sweep, SweepStatus
from planner.sweeping.policies import open_policy
from runner.ports.executor import Event, Work
from runner.simulation.executor import SimulatedExecutor
from runner.sweep.driver import SweepOutcome
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.runner.sweep.test_driver import KilledError, essence, rows, spent
from tests.runner.sweep.test_driver import sweep as larger_sweep

PAUSE, RESUME, STOP = RequestKind.PAUSE, RequestKind.RESUME, RequestKind.STOP
PAUSED_AT, RESUMED_AT = 15.0, 400.0  # undisturbed, the sweep takes less than two minutes


class Asked(SimulatedExecutor):
    """An executor in whose world people do things at set times."""

    def __init__(self, given: SimulatedSweep, at: dict[float, Callable[[], object]]) -> None:
        super().__init__(None, given.workers)
        self.at = dict(sorted(at.items()))
        self.assigned: list[float] = []
        self.released: list[float] = []

    def assign(self, work: Work) -> None:
        self.assigned.append(self.clock.seconds())
        super().assign(work)

    def release(self) -> None:
        self.released.append(self.clock.seconds())
        super().release()

    def wait(self, seconds: float) -> Sequence[Event]:
        now = self.clock.seconds()
        due = [at for at in self.at if at <= now]
        for at in due:
            self.at.pop(at)()
        until = 0.5 if due else min(self.at, default=now + seconds) - now
        return super().wait(min(seconds, until))


def sweep(folder: Path) -> SimulatedSweep:
    return larger_sweep(folder, budget=0.3, room=3.0)


def asking(given: SimulatedSweep, store: Store, times: dict[float, RequestKind]) -> Asked:
    """Return an executor in whose world anna asks for things."""

    def ask(kind: RequestKind) -> Callable[[], None]:
        def now() -> None:
            with store.write() as session:
                request(session, given.name, kind, "anna", executor.clock.now())

        return now

    executor = Asked(given, {at: ask(kind) for at, kind in times.items()})
    return executor


def run(given: SimulatedSweep, times: dict[float, RequestKind], number: int = 1) -> tuple[SweepOutcome, Asked]:
    with given.store() as store:
        executor = asking(given, store, times)
        return given.driver(executor, open_policy("full"), store, number).run(), executor


def run_until_killed(
    given: SimulatedSweep, times: dict[float, RequestKind], killed_at: float, number: int = 1
) -> Asked:
    """Run a driver that dies at some time without another word."""

    def die() -> None:
        raise KilledError

    with given.store() as store:
        executor = asking(given, store, times)
        executor.at[killed_at] = die
        with pytest.raises(KilledError):
            given.driver(executor, open_policy("full"), store, number)._turns()
    return executor


def goes_on(given: SimulatedSweep) -> bool:
    """Whether another driver hands out segments."""
    return len(run_until_killed(given, {}, killed_at=15.0, number=2).assigned) > given.workers


def points(given: SimulatedSweep) -> dict[str, Any]:
    return {name: found["points"] for name, found in essence(given).items()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> SimulatedSweep:
    given = sweep(tmp_path_factory.mktemp("undisturbed"))
    run(given, {})
    return given


@dataclass
class Paused:
    """A sweep that was paused and went on."""

    given: SimulatedSweep
    outcome: SweepOutcome
    executor: Asked
    meanwhile: list[tuple[Sweep, float]]  # its row near the end of the pause, and the age of its heartbeat


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> Paused:
    given = sweep(tmp_path_factory.mktemp("paused"))
    seen: list[tuple[Sweep, float]] = []
    with given.store() as store:
        executor = asking(given, store, {PAUSED_AT: PAUSE, RESUMED_AT: RESUME})

        def look() -> None:
            with store.read() as session:
                row = session.scalars(select(Sweep)).one()
            assert row.heartbeat_at is not None
            seen.append((row, (executor.clock.now() - row.heartbeat_at).total_seconds()))

        executor.at = dict(sorted({**executor.at, RESUMED_AT - 1: look}.items()))
        outcome = given.driver(executor, open_policy("full"), store).run()
    return Paused(given, outcome, executor, seen)


def test_a_pause_hands_out_nothing_until_it_is_to_go_on(paused: Paused, undisturbed: SimulatedSweep) -> None:
    assert paused.outcome.status is SweepStatus.FINISHED
    ((before, after),) = [pair for pair in pairwise(paused.executor.assigned) if pair[1] - pair[0] > 300]
    assert before <= PAUSED_AT + 1
    assert RESUMED_AT <= after <= RESUMED_AT + 1
    assert points(paused.given) == points(undisturbed)
    assert all(segment.outcome is SegmentOutcome.COMMITTED for segment in rows(paused.given, Segment))
    noted = [(each.action, each.reason) for each in rows(paused.given, Decision) if each.action in ("pause", "resume")]
    assert noted == [
        (
            "pause",
            "on request of anna: no new segment starts; those under way end, and workers without one are ended",
        ),
        ("resume", "on request of anna: goes on"),
    ]
    notes = [(each.kind, each.note) for each in rows(paused.given, Request)]
    assert notes == [(PAUSE, "went on, on request of anna"), (RESUME, "went on")]


def test_a_paused_sweep_keeps_its_lease_and_its_heartbeat(paused: Paused) -> None:
    ((row, age),) = paused.meanwhile
    assert (row.status, row.driver_pid) == (SweepStatus.RUNNING, 1)
    assert age <= 10.0


def test_a_pause_costs_no_more_than_new_workers_do(paused: Paused, undisturbed: SimulatedSweep) -> None:
    workers = paused.given.workers
    start_ups = workers * paused.given.choice.costs.start_up_seconds / 3600
    to_their_end = workers * 5.0 / 3600  # a turn, from the end of a segment to that of its worker
    assert spent(paused.given) <= spent(undisturbed) + start_ups + to_their_end
    assert spent(paused.given) == pytest.approx(paused.outcome.spent_gpu_hours)
    assert any(PAUSED_AT < at < RESUMED_AT for at in paused.executor.released)


@pytest.mark.parametrize("times", [{15.0: STOP}, {15.0: PAUSE, 100.0: STOP}], ids=["running", "paused"])
def test_a_stop_is_what_an_interrupt_is(
    tmp_path: Path, undisturbed: SimulatedSweep, times: dict[float, RequestKind]
) -> None:
    given = sweep(tmp_path)
    outcome, executor = run(given, times)
    assert outcome.status is SweepStatus.INTERRUPTED
    (row,) = rows(given, Sweep)
    assert (row.status, row.driver_id) == (SweepStatus.INTERRUPTED, None)
    assert all(segment.outcome is SegmentOutcome.COMMITTED for segment in rows(given, Segment))
    assert max(executor.assigned) <= 16.0
    stop = rows(given, Request)[-1]
    assert (stop.kind, stop.note, stop.taken_at is None) == (STOP, "interrupted", False)
    last = rows(given, Decision)[-1]
    assert (last.action, last.trial_id) == ("stop", None)
    assert last.reason == "on request of anna: each trial ends the update under way and is saved"
    if len(times) == 1:
        run(given, {}, number=2)
        assert points(given) == points(undisturbed)
    assert [each for each in rows(given, Decision) if each.action == "request"] == []


def test_a_stop_that_its_driver_was_killed_before_taking_is_told(tmp_path: Path) -> None:
    given = sweep(tmp_path)
    run_until_killed(given, {}, killed_at=15.0)
    with given.store() as store, store.write() as session:  # asked for while nobody had noticed
        request(session, given.name, STOP, "anna", rows(given, Sweep)[0].heartbeat_at)
    assert goes_on(given)
    (told,) = [each.reason for each in rows(given, Decision) if each.action == "request"]
    assert "was not taken: the driver was gone; process 2 on here took the sweep up again" in told


def test_a_stop_that_its_driver_was_killed_before_ending_is_told(tmp_path: Path) -> None:
    given = sweep(tmp_path)
    run_until_killed(given, {15.0: STOP}, killed_at=16.0)
    (left,) = rows(given, Request)
    assert left.taken_at is not None
    assert left.ended_at is None
    assert goes_on(given)
    (told,) = [each.reason for each in rows(given, Decision) if each.action == "request"]
    assert "was taken but not carried out to its end: the driver was gone; process 2 on here" in told


def test_a_paused_sweep_whose_driver_was_killed_is_resumed_without_the_pause(tmp_path: Path) -> None:
    given = sweep(tmp_path)
    run_until_killed(given, {15.0: PAUSE}, killed_at=100.0)
    assert goes_on(given)
    assert all(each.ended_at is not None for each in rows(given, Request))


def test_requests_are_looked_for_twice_a_second_at_most_and_again_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, failures, times, read = sweep(tmp_path), [StoreUnavailableError("locked")] * 5, [], driving.waiting
    with given.store() as store:
        executor = asking(given, store, {15.0: STOP})

        def waiting(*asked: Any) -> Any:
            times.append(executor.clock.seconds())
            if failures and executor.clock.seconds() > 15:
                raise failures.pop()
            return read(*asked)

        monkeypatch.setattr(driving, "waiting", waiting)
        outcome = given.driver(executor, open_policy("full"), store).run()
    assert outcome.status is SweepStatus.INTERRUPTED
    assert failures == []
    assert all(later - earlier >= 0.5 for earlier, later in pairwise(times))
