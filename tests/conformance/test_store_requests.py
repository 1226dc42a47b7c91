"""What people ask of a running sweep, and how its driver answers: alike on SQLite and PostgreSQL."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import delete, select

from planner.store import Store, sweeps
from planner.store.control import (
    GRACE,
    RequestRefusedError,
    end_lease,
    in_force,
    request,
    take,
    take_lease,
    unended,
    waiting,
)
from planner.store.schema import Request, RequestKind, Sweep, SweepStatus
from planner.store.sweeps import sweep_named
from tests.conformance.conftest import FIRST, SECOND
from tests.planner.store import samples
from tests.planner.store.samples import NOON

PAUSE, RESUME, STOP = RequestKind.PAUSE, RequestKind.RESUME, RequestKind.STOP


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def ask(store: Store, kind: RequestKind, by: str = "anna", seconds: float = 1.0, sweep: str | None = None) -> int:
    with store.write() as session:
        return request(session, sweep, kind, by, after(seconds)).id


def heed(store: Store, seconds: float = 2.0) -> list[RequestKind]:
    """Take all that waits, as a driver does, and return what it was."""
    with store.read() as session:
        found = waiting(session, sweep_named(session, None).id)
    with store.write() as session:
        for each in found:
            take(session, each, after(seconds))
    return [each.kind for each in found]


def rows(store: Store) -> list[Request]:
    with store.read() as session:
        return list(session.scalars(select(Request).order_by(Request.id)))


def held_by(store: Store) -> tuple[RequestKind, bool] | None:
    with store.read() as session:
        found = in_force(session.scalars(unended(sweep_named(session, None).id)).all())
        return None if found is None else (found.kind, found.taken_at is not None)


def test_a_request_waits_is_taken_once_and_stays_as_a_record(store: Store, driven: str) -> None:
    ask(store, PAUSE)
    (row,) = rows(store)
    assert (row.kind, row.by, row.at, row.taken_at, row.ended_at) == (PAUSE, "anna", after(1), None, None)
    assert held_by(store) == (PAUSE, False)
    with store.read() as session:
        (found,) = waiting(session, 1)
    assert heed(store) == [PAUSE]
    assert held_by(store) == (PAUSE, True)
    assert heed(store, 9.0) == []
    with store.write() as session:
        take(session, found, after(9))  # by a driver that saw it before
    assert rows(store)[0].taken_at == after(2)


def test_going_on_ends_the_pause_and_itself(store: Store, driven: str) -> None:
    ask(store, PAUSE)
    heed(store)
    ask(store, RESUME, by="ben", seconds=3.0)
    assert heed(store, 4.0) == [RESUME]
    assert held_by(store) is None
    pause, resume = rows(store)
    assert (pause.ended_at, pause.note) == (after(4), "went on, on request of ben")
    assert (resume.taken_at, resume.ended_at) == (after(4), after(4))
    ask(store, PAUSE, seconds=5.0)  # and again
    assert held_by(store) == (PAUSE, False)
    ask(store, RESUME)  # before it was taken
    assert heed(store) == [PAUSE, RESUME]
    assert held_by(store) is None


def test_what_would_change_nothing_is_refused(store: Store, driven: str) -> None:
    def refused(kind: RequestKind, message: str) -> None:
        with pytest.raises(RequestRefusedError, match=message):
            ask(store, kind, by="ben")

    runs = r"sweep-1 is not paused: it runs"
    stops = r"sweep-1 is being stopped already, on request of anna.*`rlplan resume sweep-1` goes on with it afterwards"
    refused(RESUME, runs)
    ask(store, PAUSE)
    refused(PAUSE, r"sweep-1 is to be paused already, on request of anna. `rlplan resume sweep-1` lets it go on")
    heed(store)
    refused(PAUSE, r"sweep-1 is paused already, on request of anna")
    ask(store, RESUME)
    refused(RESUME, runs)
    heed(store)
    refused(RESUME, runs)
    ask(store, STOP)
    for taken in (False, True):
        for kind in RequestKind:
            refused(kind, stops)
        if not taken:
            heed(store)
    assert [each.by for each in rows(store)] == ["anna"] * 3


@pytest.mark.parametrize(
    ("status", "seconds", "dead", "refusal"),
    [
        (
            SweepStatus.FINISHED,
            1.0,
            False,
            r"asked to pause: it has ended \(finished\). `rlplan status sweep-1`",
        ),
        (SweepStatus.INTERRUPTED, 1.0, False, r"no process drives it \(interrupted\). `rlplan resume sweep-1` goes on"),
        (None, 2 * GRACE.total_seconds(), False, r"its driver is gone. `rlplan resume sweep-1`"),
        (None, 1.0, True, r"its driver is gone. `rlplan resume sweep-1`"),
    ],
)
def test_a_sweep_that_nobody_drives_cannot_be_asked(
    store: Store, driven: str, status: SweepStatus | None, seconds: float, dead: bool, refusal: str
) -> None:
    if status is not None:
        with store.write() as session:
            end_lease(session, 1, FIRST, status, NOON)
    with pytest.raises(RequestRefusedError, match=refusal), store.write() as session:
        request(session, driven, PAUSE, "anna", after(seconds), driver_lives=False if dead else None)
    assert rows(store) == []


def test_a_driver_that_takes_its_own_lease_again_keeps_what_it_was_asked(store: Store, driven: str) -> None:
    ask(store, PAUSE)
    with store.write() as session:
        take_lease(session, driven, FIRST, after(5))
    assert heed(store) == [PAUSE]


def test_the_end_of_a_sweep_ends_what_was_asked_of_it(store: Store, driven: str) -> None:
    ask(store, PAUSE)
    heed(store)
    ask(store, STOP)
    with store.write() as session:
        end_lease(session, 1, FIRST, SweepStatus.INTERRUPTED, after(7))
    pause, stop = rows(store)
    assert (pause.ended_at, pause.note) == (after(7), "interrupted")
    assert (stop.ended_at, stop.note) == (after(7), "not taken: the sweep had ended (interrupted)")
    assert held_by(store) is None


def test_requests_are_the_sweeps_own_and_go_with_it(store: Store, driven: str) -> None:
    other = samples.put(store, sweeps.create_sweep, None, samples.sweep(), NOON)
    with store.write() as session:
        take_lease(session, other, SECOND, NOON)
    ask(store, PAUSE, sweep=driven)
    ask(store, STOP, sweep=other)
    assert heed(store) == [STOP]  # the newest sweep's
    with store.write() as session:
        end_lease(session, 2, SECOND, SweepStatus.INTERRUPTED, after(3))
        session.execute(delete(Sweep).where(Sweep.name == other))
    assert [(each.kind, each.ended_at) for each in rows(store)] == [(PAUSE, None)]
