"""A driver whose database is locked, full, deleted, replaced, or in another driver's hands."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import StoreError, StoreUnavailableError
from planner.belief.pool import Pool
from planner.policy.policies import open_policy
from planner.store import Store, open_store
from planner.store.control import LeaseLostError, take_lease
from planner.store.schema import Segment, SegmentOutcome, Sweep, SweepStatus
from runner.sweep import journal
from runner.sweep.conclusions import Conclusions
from runner.sweep.driver import SweepDriver
from tests.runner.sweep.simulated_sweeps import START, driver
from tests.runner.sweep.test_driver import (
    ROOM,
    essence,
    rows,
    run_until_killed,
    sweep,
    undisturbed,  # noqa: F401  (a fixture)
)


def refusing(patch: pytest.MonkeyPatch, refusals: Iterator[bool]) -> None:
    """Have a store refuse to be written as these say, and then no more."""
    write = Store.write

    def written(self: Store) -> Any:
        if next(refusals, False):
            raise StoreUnavailableError("it is locked")
        return write(self)

    patch.setattr(Store, "write", written)


def test_a_database_that_is_locked_for_a_while_loses_nothing_and_says_so(
    tmp_path: Path,
    undisturbed: dict[str, Any],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
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
    concluding = partial(Conclusions, Pool())
    with given.store() as store, pytest.raises(LeaseLostError, match="was taken over by process 2 on here"):
        SweepDriver(store, given.name, driver(1), given.spec, given.executor(), open_policy("full"), concluding)
    assert before == state(given.path)


def test_a_driver_whose_sweep_was_taken_over_stores_nothing_more(tmp_path: Path) -> None:
    given = sweep(tmp_path)

    looks, before = count(1), []

    def taken_over() -> bool:
        if next(looks) == 4:
            with store.write() as session:
                take_lease(session, given.name, driver(2), START, former_lives=False)
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
