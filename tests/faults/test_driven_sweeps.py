"""Sweeps by other people's trainers on two hosts, for which a stand-in writes their files.

A trainer is killed, the driver is stopped and another goes on: the answer is there, nothing is twice, nothing is lost.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.faults.sweeper import TRAINER
from tests.faults.test_cut_host import address, pytestmark  # noqa: F401  (a fixture, and what it needs)
from tests.faults.torment import PATIENCE, Tormented, check, undisturbed
from tests.namespaces import within
from tests.runner.trainers.standins import FORM

TRAINERS = ("verl", "prime-rl", "openrlhf", "skyrl", "nemo-rl", "slime")
SECONDS_TO_SEE = 5.0  # that a process was killed
OTHER_RAY = os.environ.get("RLPLAN_OTHER_RAY")  # an interpreter whose Ray is of another version than ours


def described(folder: Path, trainer: str, other: str | None = None) -> Path:
    """Write the trainer's file; with another interpreter each trial has a Ray of its own there."""
    lines = ['name = "standin"', *([f'python = "{other}"'] if other else []), "[options]", "save_every_steps = 5"]
    if trainer != "standin":
        lines += [f'driver = "{FORM}"', "[options.options]", f'trainer = "{trainer}"']
        lines += ["own_ray = true"] if other else []
    (folder / TRAINER).write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the same sweep leaves that nobody disturbs: its world is the same whoever trains."""
    return undisturbed(described(tmp_path_factory.mktemp("undisturbed"), "standin"))


def until(condition: Callable[[], object], sweep: Tormented) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, (sweep.folder / "driver.log").read_text()[-3000:]
        time.sleep(0.1)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_killed_trainer_and_a_stopped_driver_change_nothing_of_a_sweep(
    trainer: str,
    address: str,  # noqa: F811
    calm: dict[str, Any],
    tmp_path: Path,
) -> None:
    disturbed(Tormented(described(tmp_path, trainer), address, within("rlp-one")), calm)


@pytest.mark.skipif(OTHER_RAY is None, reason="RLPLAN_OTHER_RAY names no interpreter: make soak-trainers makes one")
def test_so_it_is_where_each_trial_has_a_ray_of_its_own_of_another_version(
    address: str,  # noqa: F811
    calm: dict[str, Any],
    tmp_path: Path,
) -> None:
    disturbed(Tormented(described(tmp_path, "verl", OTHER_RAY), address, within("rlp-one")), calm)


def disturbed(sweep: Tormented, calm: dict[str, Any]) -> None:
    """Kill a trainer of a sweep, stop its driver, let another go on, and hold what is left against the calm one."""
    process = sweep.drive()
    assert sweep.trains(process), (sweep.folder / "driver.log").read_text()

    break_off(sweep)
    until(lambda: sweep.rows("SELECT count(*) FROM segments WHERE outcome = 'committed'")[0][0], sweep)
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) in (0, 130)
    again = sweep.drive()
    assert again.wait(PATIENCE * 2) == 0, (sweep.folder / "driver.log").read_text()[-3000:]

    assert sweep.rows("SELECT count(*) FROM trials")[0][0] == 6
    assert sweep.rows("SELECT count(*) FROM recommendations")[0][0] >= 1
    check(sweep, calm)


def break_off(sweep: Tormented) -> None:
    """Kill a trainer; between two segments its death costs none, and then another dies."""
    killed_at = -SECONDS_TO_SEE

    def done() -> int:
        nonlocal killed_at
        if (living := standins(sweep)) and time.monotonic() - killed_at > SECONDS_TO_SEE:
            killed_at = time.monotonic()
            with suppress(psutil.NoSuchProcess):
                living[0].send_signal(signal.SIGKILL)
        return broken_off(sweep)

    until(done, sweep)


def broken_off(sweep: Tormented) -> int:
    """Return how many segments were lost or have failed."""
    count: int = sweep.rows("SELECT count(*) FROM segments WHERE outcome IN ('lost', 'failed')")[0][0]
    return count


def standins(sweep: Tormented) -> list[psutil.Process]:
    """Return the processes that train."""
    return [one for one in sweep.processes() if "tests.trainer_forms.process" in _words(one)]


def _words(process: psutil.Process) -> list[str]:
    try:
        words = process.cmdline()
    except psutil.Error:
        return []
    return [] if any(word.endswith("in_own_ray.py") for word in words) else words
