"""What transactions keep apart, take back and leave behind: alike on SQLite and PostgreSQL."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from budgets.errors import StoreError
from planner.store import Store, open_store, results, sweeps
from planner.store.schema import (
    Candidate,
    Decision,
    Fit,
    Plan,
    Point,
    Ranking,
    Recommendation,
    Segment,
    Sweep,
    Transition,
    Trial,
)
from tests.planner.store import samples
from tests.planner.store.samples import NOON, count

# Transactions


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    def fail_after_writing() -> None:
        with store.write() as session:
            session.execute(text("INSERT INTO alembic_version VALUES ('x')"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_after_writing()
    with store.read() as session:
        assert session.scalar(text("SELECT count(*) FROM alembic_version")) == 1


def test_a_reading_session_cannot_write(store: Store) -> None:
    with pytest.raises((DBAPIError, StoreError)), store.read() as session:
        session.execute(text("DELETE FROM plans"))


def test_a_reader_sees_one_moment(store: Store) -> None:
    with store.read() as session:
        assert session.scalar(select(func.count()).select_from(Plan)) == 0
        store.save_plan(samples.plan(), [], created_at=NOON)
        assert session.scalar(select(func.count()).select_from(Plan)) == 0
    assert count(store, Plan) == 1


def test_a_writer_that_waits_too_long_is_told_so(location: str, store: Store) -> None:
    with open_store(location, lock_timeout_seconds=0.1) as impatient, store.write() as session:
        session.execute(text("SELECT 1"))
        with pytest.raises(StoreError, match="is locked: another process"):
            impatient.save_plan(samples.plan(), [], created_at=NOON)
    store.save_plan(samples.plan(), [], created_at=NOON)


def test_deleting_a_plan_takes_all_that_hangs_on_it(store: Store) -> None:
    trial_id = samples.started_trial(store)
    segment = samples.put(store, results.open_segment, trial_id, samples.segment(), NOON)
    samples.put(store, results.add_points, [samples.point(trial_id, 1, segment_id=segment)])
    samples.put(store, Session.add, samples.fit(trial_id))
    samples.decide(store, trial_id=trial_id)
    samples.put(store, results.save_recommendation, "sweep-1", samples.recommendation(), [samples.ranking(1, 8)])
    samples.put(store, sweeps.add_cost_records, [samples.cost_record()])
    with store.write() as session:
        session.execute(text(f"UPDATE cost_records SET trial_id = {trial_id}"))
        session.execute(text("DELETE FROM plans"))
    for table in (Candidate, Sweep, Trial, Segment, Point, Transition, Fit, Decision, Recommendation, Ranking):
        assert count(store, table) == 0, table
    assert [record.trial_id for record in store.cost_records()] == [None]


# Opening


def test_what_was_stored_is_there_when_opened_again(location: str) -> None:
    with open_store(location) as store:
        assert store.notices == []
        store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
    with open_store(location) as store:
        store.save_plan(samples.plan(), [], created_at=NOON)
    with open_store(location, read_only=True) as store:
        assert len(store.plan("plan-1").candidates) == 2
        with pytest.raises(StoreError, match="opened for reading only"):
            store.save_plan(samples.plan(), [], created_at=datetime.now(UTC))
