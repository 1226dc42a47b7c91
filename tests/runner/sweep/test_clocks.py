"""Clocks that are wrong charge nobody: what a worker says of its life is held against the driver's own clock."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from planner.policy.policies import open_policy
from planner.store.schema import Decision
from runner.ports.executor import Event
from runner.sweep.worker_records import process_seconds
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.runner.sweep.test_driver import ROOM, rows, run_until_killed, spent, sweep
from tests.simulated.executor import SimulatedExecutor

YEARS = 1.8e9  # seconds


class Ahead(SimulatedExecutor):
    """Its workers take the time of day for their age."""

    def wait(self, seconds: float) -> Sequence[Event]:
        return [replace(event, worker_seconds=YEARS + event.worker_seconds) for event in super().wait(seconds)]


def two_sweeps(folder: Path) -> list[SimulatedSweep]:
    for name in ("right", "wrong"):
        (folder / name).mkdir()
    return [sweep(folder / name, room=ROOM) for name in ("right", "wrong")]


def noted(given: SimulatedSweep) -> list[str]:
    return [decision.reason for decision in rows(given, Decision) if "a clock is wrong there" in decision.reason]


def test_workers_that_say_they_lived_for_years_are_charged_what_they_can_have_lived(tmp_path: Path) -> None:
    right, wrong = two_sweeps(tmp_path)
    right.run(open_policy("full"))
    outcome = wrong.drive(Ahead(wrong.workers))
    assert outcome.overrun_gpu_hours == 0
    assert spent(wrong) == pytest.approx(spent(right), rel=0.01)
    assert len(noted(wrong)) == wrong.workers


def test_a_record_of_years_is_not_charged_when_its_sweep_is_taken_over(tmp_path: Path) -> None:
    right, wrong = two_sweeps(tmp_path)
    for given, seconds in ((right, 9.0), (wrong, YEARS)):
        run_until_killed(given, 3, 1)
        folder = Path(given.spec.folder) / "workers"
        folder.mkdir(parents=True)
        life = {"worker": "w", "seconds": seconds, "slots": 1, "segment": None, "over": True}
        (folder / "w.json").write_text(json.dumps(life), encoding="utf-8")
        given.run(open_policy("full"))
    assert spent(right) - spent(wrong) == pytest.approx(9.0 / 3600)
    assert not noted(right)
    assert noted(wrong)


def test_the_age_of_a_process_does_not_rest_on_the_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    age = process_seconds()
    monkeypatch.setattr(time, "clock_gettime", lambda _: time.time())  # as libfaketime answers
    assert process_seconds() == pytest.approx(age, abs=60)
