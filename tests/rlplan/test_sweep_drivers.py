"""A sweep has one driver: who keeps it, who takes it over, and who is waited for."""

import os
import socket
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from budgets.errors import StoreError
from planner.store import open_store
from planner.store.control import GRACE, Driver, hold_lease
from planner.store.sweeps import sweep_named
from rlplan.actions import sweeping
from rlplan.actions.sweeping import go_on
from rlplan.requests.run import ResumeRequest
from runner.processes import this_driver
from runner.sweep.home import home_of
from tests.rlplan.stored_rows import hold
from tests.rlplan.test_sweeping import interrupted

pytestmark = pytest.mark.usefixtures("simulated_workers")


def test_a_driver_that_lives_keeps_its_sweep_and_a_dead_one_does_not(database: str) -> None:
    interrupted(database)
    ticks, boot, space = this_driver().id.rpartition("@")[2].split("/")

    def held_since(birth: str, ago: timedelta = timedelta()) -> None:
        hold(database, Driver(f"other@{birth}", socket.gethostname(), os.getpid()), datetime.now(UTC) - ago)

    # Of another start of the machine, or of a container with its name, nobody knows here.
    for birth in (f"{ticks}/{boot}/{space}", f"1/another/{space}", f"1/{boot}/pid:[1]"):
        held_since(birth)
        with pytest.raises(StoreError, match=f"sweep-1 is being driven by process {os.getpid()} on"):
            go_on(ResumeRequest(db=database))
    held_since(f"{ticks}/{boot}/{space}", 5 * GRACE)  # the clock of who resumes is ahead
    with pytest.raises(StoreError, match=f"end it with `kill -9 {os.getpid()}`"):
        go_on(ResumeRequest(db=database))
    held_since(f"1/{boot}/{space}")  # another process had this number before
    assert not go_on(ResumeRequest(db=database)).interrupted


def test_of_two_that_resume_a_dead_drivers_sweep_at_once_one_gets_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(database)
    _, _, world = this_driver().id.rpartition("@")[2].partition("/")

    def home_while_another_takes_it(*given: Any) -> Any:
        hold(database, this_driver())
        return home_of(*given)

    hold(database, Driver(f"dead@1/{world}", socket.gethostname(), os.getpid()))
    monkeypatch.setattr(sweeping, "home_of", home_while_another_takes_it)
    with pytest.raises(StoreError, match=r"sweep-1 is being driven by process \d+ on"):
        go_on(ResumeRequest(db=database))


def test_a_driver_that_was_killed_with_its_machine_is_waited_for(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(database)
    held = datetime.now(UTC)

    def later(_: float) -> None:
        nonlocal held
        held -= GRACE / 2
        hold(database, Driver("gone@1.00", "another-host", 1), held)

    later(0.0)
    monkeypatch.setattr(sweeping, "time", SimpleNamespace(monotonic=time.monotonic, sleep=later))
    with pytest.raises(StoreError, match="being driven by process 1 on another-host"):
        go_on(ResumeRequest(db=database))
    assert not go_on(ResumeRequest(db=database, wait=60)).interrupted


def test_a_driver_whose_clock_is_behind_keeps_its_sweep(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(database)
    driver, by_its_clock = Driver("lives@1.00", "another-host", 1), datetime.now(UTC) - 2 * GRACE
    looks = 0

    def look(_: float) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            with open_store(database) as store, store.write() as session:
                hold_lease(session, sweep_named(session, "sweep-1").id, driver, by_its_clock + timedelta(seconds=5))

    hold(database, driver, by_its_clock)
    monkeypatch.setattr(sweeping, "time", SimpleNamespace(monotonic=time.monotonic, sleep=look))
    with pytest.raises(StoreError, match=r"process 1 on another-host, whose clock is about 1\d\d s behind"):
        go_on(ResumeRequest(db=database))
    assert not go_on(ResumeRequest(db=database)).interrupted  # nothing more was heard of it
