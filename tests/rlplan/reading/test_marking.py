"""The mark of a sweep changes with whatever a page shows, and with nothing else."""

from collections.abc import Callable
from datetime import datetime

import pytest

from planner.store.control import hold_lease, request, take, waiting
from planner.store.schema import RequestKind, Segment, SegmentOutcome, SweepStatus
from planner.store.sweeps import sweep_named
from planner.view import TrialState
from rlplan.reading.beliefs import mark
from tests.rlplan.sweep_rows import DRIVER, STEPS, Seeder, later


def marked(seeder: Seeder, now: datetime) -> str:
    with seeder.store.read() as session:
        return mark(session, sweep_named(session, seeder.sweep).id, now=now)


def began(seeder: Seeder) -> None:
    """A worker takes the open segment of a trial."""
    with seeder.store.write() as session:
        segment = session.get_one(Segment, seeder.open[1])
        segment.worker, segment.started_at = "w2", seeder.now()


def again(seeder: Seeder) -> None:
    """A step that was scored before is scored again by a later attempt."""
    seeder.score(1, 2 * STEPS, 0.1, attempt=2)


CHANGES: dict[str, Callable[[Seeder], object]] = {
    "a point": lambda seeder: seeder.score(1, 3 * STEPS + 2, 0.6),
    "a point again": again,
    "a decision": lambda seeder: seeder.decide("stop", "there is nothing to gain"),
    "a segment": lambda seeder: seeder.begin(3, 2 * STEPS),
    "a worker": began,
    "an end": lambda seeder: seeder.settle(1, SegmentOutcome.COMMITTED),
    "a state": lambda seeder: seeder.move(3, TrialState.PRUNED),
    "a fit": lambda seeder: seeder.fit(1, 0.7, 0.5),
    "a charge": lambda seeder: seeder.charge("idle", 1.0),
    "a recommendation": lambda seeder: seeder.recommend(),
    "a trial": lambda seeder: seeder.trial(8, 32, seed=5),
    "the end of the sweep": lambda seeder: seeder.end(SweepStatus.FINISHED),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_page_shows_changes_the_mark(seeder: Seeder, change: str) -> None:
    now = later(seeder, 30.0)
    before = marked(seeder, now)
    CHANGES[change](seeder)
    assert marked(seeder, now) != before


def test_what_is_asked_of_a_sweep_changes_the_mark_twice(seeder: Seeder) -> None:
    now = later(seeder, 30.0)
    marks = [marked(seeder, now)]
    with seeder.store.write() as session:
        request(session, seeder.sweep, RequestKind.PAUSE, "me", now)
    marks.append(marked(seeder, now))
    with seeder.store.write() as session:
        sweep_id = sweep_named(session, seeder.sweep).id
        take(session, waiting(session, sweep_id)[0], now)
    marks.append(marked(seeder, now))
    assert len(set(marks)) == 3


def test_a_heartbeat_changes_nothing_but_that_there_is_none_does(seeder: Seeder) -> None:
    now = later(seeder, 30.0)
    before = marked(seeder, now)
    with seeder.store.write() as session:
        hold_lease(session, sweep_named(session, seeder.sweep).id, DRIVER, now)
    assert marked(seeder, now) == before
    assert marked(seeder, later(seeder, 300.0)) != before
