"""A disk that is full: every command says so, which disk, how much is free and needed, and leaves no half file."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from budgets.errors import CheckpointError, TrainingError
from planner.config.trainer import Patience
from planner.disk import room, unwritten
from planner.store.schema import SweepStatus
from planner.view import TrialState
from rlplan.actions import sweeping
from rlplan.actions.sweeping import start
from runner.ports.executor import Ended, Event, Failed
from tests.conformance.test_trainer_backend_command import COMMAND, described, trained
from tests.rlplan.conftest import Run
from tests.rlplan.sweep_rows import ready
from tests.rlplan.test_sweeping import Simulated, request, simulate, stored, trials

SIZE = 64  # KiB


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mounting, capture_output=True, check=False).returncode != 0:
        reason = "only root may mount a small disk"
        assert not os.environ.get("RLPLAN_REQUIRE_ROOT"), reason
        pytest.skip(reason)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def larger(disk: Path) -> Path:
    """A disk of 1 MiB: a trainer would train on it."""
    subprocess.run(["mount", "-o", "remount,size=1m", str(disk)], check=True)
    return disk


def fill(disk: Path, free: int) -> None:
    """Leave so many KiB free."""
    (disk / "filler").write_bytes(bytes(1024 * (SIZE - free)))


@pytest.mark.parametrize("free", [0, 4, 36, 60])
def test_a_database_that_has_no_room_is_not_left_half_made(run: Run, disk: Path, free: int) -> None:
    fill(disk, free)
    ran = run("propose", "--budget", "5000", "--db", str(disk / "rlplan.db"))
    assert ran.code == 2
    assert f"the disk is full: {disk} has 0.00 MB free" in ran.err
    assert os.listdir(disk) == ["filler"]


def test_what_needs_more_room_than_there_is_says_how_much(run: Run, disk: Path, one: str) -> None:
    ran = run("fit", one, "--plot", str(disk / "p.html"))
    assert ran.code == 2
    assert f"the disk is full: {disk} has 0.07 MB free, and 1." in ran.err
    assert os.listdir(disk) == []


@pytest.mark.parametrize(
    "command",
    [
        ("init", "out/rlplan.toml"),
        ("report", "out/r.html"),
        ("export", "out/e.json"),
        ("export", "out/all.csv"),
    ],
    ids=" ".join,
)
def test_no_command_leaves_an_empty_or_half_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    ready(tmp_path / "rlplan.db")
    (tmp_path / "out").mkdir()
    no_room(monkeypatch)
    ran = run(*command)
    assert ran.code == 2
    assert "the disk is full: " in ran.err
    assert "Make room there" in ran.err
    assert list((tmp_path / "out").rglob("*")) == []


@pytest.mark.usefixtures("simulated_workers")
def test_a_sweep_that_cannot_begin_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_room(monkeypatch)
    with pytest.raises(sweeping.InputError, match=r"sweep-1 cannot be written to \(the disk is full"):
        start(request(budget=0.1, db=str(tmp_path / "rlplan.db")))
    assert list((tmp_path / "rlplan-sweeps").iterdir()) == []


@pytest.mark.usefixtures("simulated_workers")
def test_a_sweep_that_finds_its_disk_full_stops_and_fails_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    class Full(Simulated):
        def wait(self, seconds: float) -> list[Event]:
            said = unwritten(tmp_path, OSError(errno.ENOSPC, ""), "")
            return [
                Failed(each.segment, each.worker, each.worker_seconds, "checkpoint", said)
                if isinstance(each, Ended)
                else each
                for each in super().wait(seconds)
            ]

    simulate(monkeypatch, Full)
    with pytest.raises(CheckpointError, match=r"the disk is full.*go on with `rlplan resume`"):
        start(request(budget=0.1, db=database))
    assert stored(database).status is SweepStatus.INTERRUPTED
    assert TrialState.FAILED not in {trial.state for trial in trials(database).values()}


@pytest.mark.usefixtures("simulated_workers")
def test_a_disk_that_is_full_ends_a_sweep_at_the_first_failure(
    larger: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    failures: list[Failed] = []

    class Filling(Simulated):
        def wait(self, seconds: float) -> list[Event]:
            events = list(super().wait(seconds))
            if ended := next((event for event in events if isinstance(event, Ended)), None):
                with suppress(OSError):
                    (larger / "big").write_bytes(bytes(2**20))
                said = f"the trainer ended with exit code 1; {room(larger)}"
                failures.append(Failed(ended.segment, ended.worker, ended.worker_seconds, "checkpoint", said))
                return [failures[-1]]
            return events

    simulate(monkeypatch, Filling)
    with pytest.raises(CheckpointError, match=rf"exit code 1; the disk is full: {larger} has 0.00 MB free.*resume`"):
        start(request(budget=0.1, db=database, folder=str(larger)))
    assert len(failures) == 1
    assert stored(database).status is SweepStatus.INTERRUPTED


FILLING = """
import json, os, sys, time
with open("log.jsonl", "w") as log:
    for step in range(3):
        log.write(json.dumps({"it": step, "eval/acc": 0.5, "length": 9}) + chr(10))
while not (os.path.exists("../metrics.jsonl") and os.path.getsize("../metrics.jsonl")):
    time.sleep(0.02)  # until they are stored
try:
    with open("big", "wb", buffering=0) as file:
        while True:
            file.write(bytes(1024))
except OSError:
    if sys.argv[1] == "dies":
        raise
    time.sleep(600)
"""


@pytest.mark.parametrize(("then", "kind"), [("dies", "checkpoint"), ("stays", "hang")])
def test_a_trainer_that_fills_the_disk_is_ended_with_what_is_free(
    larger: Path, tmp_path: Path, then: str, kind: str
) -> None:
    (tmp_path / "filling.py").write_text(FILLING)
    config = described("jsonl", command=COMMAND.replace("{here}/own_trainer.py", f"{tmp_path}/filling.py {then}"))
    patience = Patience(least_seconds=0.5, pause_seconds=600.0)
    config = config.model_copy(update={"trainer": config.driven_by.model_copy(update={"patience": patience})})
    with pytest.raises(TrainingError, match=f"; the disk is full: {larger} has 0.00 MB free. Make room") as failure:
        trained(config, larger / "trial", 4)
    assert failure.value.kind == kind


def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing that is written reach the disk."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
