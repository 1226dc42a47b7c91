"""Who drives a sweep and how it stands: alike on SQLite and PostgreSQL."""

from datetime import timedelta

import pytest

from budgets.errors import StoreError
from planner.store import Store, results, sweeps
from planner.store.control import GRACE, LeaseLostError, end_lease, hold_lease, take_lease
from planner.store.read_model import Trained, failures_since_success, points_of, sweep_snapshot
from planner.store.schema import Charge, SegmentOutcome, Sweep, SweepStatus
from planner.store.sweeps import sweep_named
from planner.view import ScorePoint, TrialState
from tests.conformance.conftest import FIRST, SECOND
from tests.planner.store import samples
from tests.planner.store.samples import NOON, at

SOON = NOON + GRACE / 2
LATE = NOON + 2 * GRACE


def row(store: Store, sweep: str | None = None) -> Sweep:
    with store.read() as session:
        return sweep_named(session, sweep)


def test_a_second_driver_is_refused_while_the_first_lives(store: Store, driven: str) -> None:
    assert (row(store).status, row(store).driver_pid) == (SweepStatus.RUNNING, 11)
    refusal = r"sweep-1 is being driven by process 11 on here \(last heard of 45 s ago\).*taken to be gone"
    with pytest.raises(StoreError, match=refusal), store.write() as session:
        take_lease(session, driven, SECOND, SOON)
    assert row(store).driver_id == FIRST.id
    with store.write() as session:
        take_lease(session, driven, FIRST, SOON)  # its own is no obstacle
    assert row(store).heartbeat_at == SOON


def test_a_driver_whose_process_is_there_keeps_its_sweep_whatever_the_clock_says(store: Store, driven: str) -> None:
    with pytest.raises(StoreError, match="Where it hangs, end it with `kill -9 11`"), store.write() as session:
        take_lease(session, driven, SECOND, LATE, former_lives=True)
    assert row(store).driver_id == FIRST.id


@pytest.mark.parametrize(("now", "dead"), [(LATE, False), (SOON, True)], ids=["silent for too long", "seen to be dead"])
def test_a_dead_driver_loses_its_sweep_and_can_store_nothing_more(
    store: Store, driven: str, now: object, dead: bool
) -> None:
    with store.write() as session:
        take_lease(session, driven, SECOND, now, former_lives=False if dead else None)
    sweep_id = row(store).id
    refusal = "sweep-1 was taken over by process 22 on there"

    def stores_something() -> None:
        with store.write() as session:
            session.add(Charge(sweep_id=sweep_id, at=NOON, worker="w", kind="idle", gpu_hours=5.0))
            hold_lease(session, sweep_id, FIRST, now)

    with pytest.raises(LeaseLostError, match=refusal):
        stores_something()
    with store.write() as session:
        hold_lease(session, sweep_id, SECOND, now + timedelta(seconds=1))
    with store.read() as session:
        assert sweep_snapshot(session, driven).spent_gpu_hours == 0
    assert row(store).heartbeat_at == now + timedelta(seconds=1)


def test_a_clock_that_was_set_back_does_not_free_a_sweep(store: Store, driven: str) -> None:
    with pytest.raises(StoreError, match="last heard of 0 s ago"), store.write() as session:
        take_lease(session, driven, SECOND, NOON - timedelta(days=1))


@pytest.mark.parametrize(
    ("status", "finished"),
    [(SweepStatus.FINISHED, LATE), (SweepStatus.FAILED, LATE), (SweepStatus.INTERRUPTED, None)],
)
def test_an_ended_lease_is_free_for_anyone(store: Store, driven: str, status: SweepStatus, finished: object) -> None:
    with store.write() as session:
        end_lease(session, row(store).id, FIRST, status, LATE)
    ended = row(store)
    assert (ended.status, ended.finished_at, ended.driver_id, ended.heartbeat_at) == (status, finished, None, None)
    with store.write() as session:
        take_lease(session, driven, SECOND, NOON)
    assert (row(store).status, row(store).finished_at) == (SweepStatus.RUNNING, None)


def lost_beyond_eight(store: Store, *steps: int) -> int:
    """Store a trial with scores at these steps whose first segment reached 8 and whose second was lost."""
    trial = samples.started_trial(store)
    samples.put(store, sweeps.move_trial, trial, TrialState.RUNNING, NOON, "start")
    first = samples.put(store, results.open_segment, trial, samples.segment(1, worker=None), NOON)
    samples.put(store, results.add_points, [samples.point(trial, step, score=0.1 * step) for step in steps])
    with store.write() as session:
        results.settle_segment(session, first, SegmentOutcome.COMMITTED, 2.0, at(1), reached_step=8, worker="w1")
    second = samples.put(store, results.open_segment, trial, samples.segment(2, from_step=8, to_step=16), at(1))
    samples.put(store, results.settle_segment, second, SegmentOutcome.LOST, 1.0, at(2))
    samples.put(store, sweeps.move_trial, trial, TrialState.LOST, at(2), "gone")
    samples.put(store, sweeps.move_trial, trial, TrialState.PAUSED, at(3), "again")
    return trial


def test_how_a_sweep_stands(store: Store) -> None:
    trial = lost_beyond_eight(store, 0, 4, 8)
    samples.put(
        store, results.add_points, [samples.point(trial, 8, 2, score=0.9), samples.point(trial, 9, 2, score=None)]
    )
    samples.put(store, results.open_segment, trial, samples.segment(2, from_step=8, to_step=16, worker="w2"), at(3))
    with store.write() as session:
        session.add(Charge(sweep_id=row(store).id, at=at(3), worker="w1", kind="idle", gpu_hours=0.25))

    with store.read() as session:
        stands = sweep_snapshot(session, "sweep-1")
    of_trial = stands.segments[trial]
    assert [each.outcome for each in of_trial] == [
        SegmentOutcome.COMMITTED,
        SegmentOutcome.LOST,
        SegmentOutcome.RESERVED,
    ]
    assert (of_trial[0].to_step, of_trial[0].worker) == (8, "w1")
    assert stands.committed_step(trial) == 8
    assert failures_since_success(of_trial) == 1
    assert stands.scores[trial] == [
        ScorePoint(0, 0.0, 0.0, None), ScorePoint(4, 0.4, 0.4, None), ScorePoint(8, 0.8, 0.9, None),
    ]  # fmt: skip
    assert stands.trained[trial] == Trained(0.0, 8, pytest.approx(0.8))
    assert stands.spent_gpu_hours == 3.25
    assert stands.charged_to_workers == {"w1": 3.25, "w2": 0.0}
    assert [each.name for each in stands.trials] == ["n8-B64-s1"]
    assert [each.rank for each in stands.plan.candidates] == [1, 2]


def test_what_a_lost_attempt_did_beyond_its_checkpoint_counts_nowhere_and_no_score_is_hidden(store: Store) -> None:
    trial = lost_beyond_eight(store, 0, 4, 8, 11, 15)
    again = [samples.point(trial, 8, 2, score=None), samples.point(trial, 12, 2, score=0.9)]
    samples.put(store, results.add_points, again)
    third = samples.put(store, results.open_segment, trial, samples.segment(3, from_step=8, to_step=16), at(3))

    with store.read() as session:
        under_way = [each.optimizer_step for each in points_of(session, trial)]
        stands = sweep_snapshot(session, "sweep-1")
    assert under_way == [0, 4, 8, 12]
    assert [(each.step, each.score) for each in stands.scores[trial]] == [(0, 0.0), (4, 0.4), (8, 0.8)]
    with store.write() as session:
        results.settle_segment(session, third, SegmentOutcome.COMMITTED, 2.0, at(4), reached_step=16, worker="w2")
    with store.read() as session:
        stands = sweep_snapshot(session, "sweep-1")
    assert [each.step for each in stands.scores[trial]] == [0, 4, 8, 12]
    assert stands.trained[trial].last_step == 12
