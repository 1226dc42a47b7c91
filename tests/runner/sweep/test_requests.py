"""A running sweep that is asked to pause, to go on and to stop, in a simulated world."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from budgets.errors import StoreUnavailableError
from planner.policy.policies import open_policy
from planner.store import Store, control
from planner.store.control import request
from planner.store.schema import Decision, Request, RequestKind, Segment, SegmentOutcome, Sweep, SweepStatus
from runner.ports.executor import Event, Work
from runner.sweep.driver import SweepOutcome
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.runner.sweep.test_driver import KilledError, essence, rows, spent
from tests.runner.sweep.test_driver import sweep as larger_sweep
from tests.simulated.executor import SimulatedExecutor

PAUSE, RESUME, STOP = RequestKind.PAUSE, RequestKind.RESUME, RequestKind.STOP
PAUSED_AT, RESUMED_AT = 15.0, 400.0  # undisturbed, the sweep takes less than two minutes


class Asked(SimulatedExecutor):
    """An executor in whose world people do things at set times."""

    def __init__(self, given: SimulatedSweep, at: dict[float, Callable[[], object]]) -> None:
        super().__init__(given.workers)
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
    return larger_sweep(folder, budget=0.3, room=3.0, every_steps=20)


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


def test_a_pause_hands_out_nothing_until_it_is_to_go_on(tmp_path: Path, undisturbed: SimulatedSweep) -> None:
    given, meanwhile = sweep(tmp_path), []
    with given.store() as store:
        executor = asking(given, store, {PAUSED_AT: PAUSE, RESUMED_AT: RESUME})

        def look() -> None:
            with store.read() as session:
                row = session.scalars(select(Sweep)).one()
            assert row.heartbeat_at is not None
            meanwhile.append((row.status, row.driver_pid, (executor.clock.now() - row.heartbeat_at).total_seconds()))

        executor.at = dict(sorted({**executor.at, RESUMED_AT - 1: look}.items()))
        outcome = given.driver(executor, open_policy("full"), store).run()
    assert outcome.status is SweepStatus.FINISHED
    ((status, process, silent),) = meanwhile  # it keeps its lease and its heartbeat
    assert (status, process, silent <= 10.0) == (SweepStatus.RUNNING, 1, True)
    ((before, after),) = [pair for pair in pairwise(executor.assigned) if pair[1] - pair[0] > 300]
    assert before <= PAUSED_AT + 1
    assert RESUMED_AT <= after <= RESUMED_AT + 1
    assert points(given) == points(undisturbed)
    assert all(segment.outcome is SegmentOutcome.COMMITTED for segment in rows(given, Segment))
    noted = {each.action: each.reason for each in rows(given, Decision) if each.action in ("pause", "resume")}
    assert list(noted) == ["pause", "resume"]
    assert all("on request of anna" in reason for reason in noted.values())
    notes = [(each.kind, each.note) for each in rows(given, Request)]
    assert notes == [(PAUSE, "went on, on request of anna"), (RESUME, "went on")]
    # It costs no more than new workers do, and a turn from the end of a segment to that of its worker.
    start_ups = given.workers * given.choice.costs.start_up_seconds / 3600
    assert spent(given) <= spent(undisturbed) + start_ups + given.workers * 5.0 / 3600
    assert spent(given) == pytest.approx(outcome.spent_gpu_hours)
    assert any(PAUSED_AT < at < RESUMED_AT for at in executor.released)


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


@pytest.mark.parametrize(("kind", "taken"), [(STOP, False), (STOP, True), (PAUSE, True)])
def test_a_request_that_a_killed_driver_did_not_carry_out_is_told_and_holds_nobody(
    tmp_path: Path, kind: RequestKind, taken: bool
) -> None:
    given = sweep(tmp_path)
    run_until_killed(given, {15.0: kind} if taken else {}, killed_at=16.0)
    if not taken:  # asked for while nobody had noticed
        with given.store() as store, store.write() as session:
            request(session, given.name, kind, "anna", rows(given, Sweep)[0].heartbeat_at)
    (left,) = rows(given, Request)
    assert (left.taken_at is not None, left.ended_at) == (taken, None)
    assert goes_on(given)
    (reason,) = [decision.reason for decision in rows(given, Decision) if decision.action == "request"]
    assert ("was taken but not carried out to its end" if taken else "was not taken") in reason
    assert "the driver was gone; process 2 on here" in reason


def test_a_request_that_cannot_be_read_is_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, failures, read = sweep(tmp_path), [StoreUnavailableError("locked")] * 5, control.waiting
    with given.store() as store:
        executor = asking(given, store, {15.0: STOP})

        def waiting(*asked: Any) -> Any:
            if failures and executor.clock.seconds() > 15:
                raise failures.pop()
            return read(*asked)

        monkeypatch.setattr(control, "waiting", waiting)
        outcome = given.driver(executor, open_policy("full"), store).run()
    assert (outcome.status, failures) == (SweepStatus.INTERRUPTED, [])
