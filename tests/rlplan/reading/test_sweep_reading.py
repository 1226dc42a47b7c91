"""What the picture of a sweep says of the rows, and what reading it costs."""

from dataclasses import replace
from datetime import timedelta

import pytest

from planner.store.control import request, take, take_lease
from planner.store.schema import RequestKind
from rlplan.reading.sweep_rows import picture
from rlplan.reading.sweeps import listed_sweeps
from runner.processes import this_driver
from tests.planner.store.samples import NOON
from tests.rlplan.sweep_rows import Seeder, later


def test_time_left_is_what_the_running_trials_can_spend(seeder: Seeder) -> None:
    now = later(seeder)
    seen = picture(seeder.store, now=now)
    assert seen.elapsed_seconds == (now - NOON).total_seconds()
    most = (seen.money.left + seen.money.reserved_gpu_hours) / (2 * 8) * 3600  # two trials on 8 GPUs each
    assert seen.seconds_left is not None
    assert most / 2 < seen.seconds_left < most
    later_on = picture(seeder.store, now=now + timedelta(seconds=30))
    assert later_on.seconds_left == pytest.approx(seen.seconds_left - 30)
    assert later_on.money.used_of_reserved_gpu_hours == pytest.approx(
        seen.money.used_of_reserved_gpu_hours + 2 * 8 * 30 / 3600
    )


def test_a_driver_that_is_silent_or_gone_is_not_alive(seeder: Seeder) -> None:
    alive = picture(seeder.store, now=later(seeder, 30.0))
    assert alive.driver is not None
    assert (alive.driver.alive, alive.driver.silent_seconds, alive.abandoned) == (True, 30.0, False)
    silent = picture(seeder.store, now=later(seeder, 300.0))
    assert silent.abandoned
    assert silent.seconds_left is None
    assert silent.money.used_of_reserved_gpu_hours == 0.0  # nobody knows
    assert silent.elapsed_seconds == alive.elapsed_seconds - 30.0  # it counts to the last sign of life

    gone = replace(this_driver(), pid=2**22 + 1)  # on this machine, where no process has that number
    with seeder.store.write() as session:
        take_lease(session, seeder.sweep, gone, later(seeder), former_lives=False)
    assert picture(seeder.store, now=later(seeder, 3.0)).abandoned


@pytest.mark.parametrize(("stop", "state"), [(False, "paused"), (True, "running")])
def test_the_list_and_the_picture_have_one_word_for_how_a_sweep_stands(seeder: Seeder, stop: bool, state: str) -> None:
    now = later(seeder)
    with seeder.store.write() as session:
        take(session, request(session, "sweep-1", RequestKind.PAUSE, "anna", now), now)
        if stop:
            request(session, "sweep-1", RequestKind.STOP, "anna", now)
    with seeder.store.read() as session:
        (listed,) = listed_sweeps(session, now)
    assert listed.state == picture(seeder.store, now=now).state == state
