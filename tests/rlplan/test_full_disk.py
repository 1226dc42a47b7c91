"""A disk that is full: every command says so, which disk, how much is free and needed, and leaves no half file."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from budgets.errors import CheckpointError
from planner.disk import unwritten
from planner.store.schema import SweepStatus
from planner.trials import TrialState
from rlplan.actions import sweeping
from rlplan.actions.sweeping import start
from runner.ports.executor import Ended, Event, Failed
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


def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing that is written reach the disk."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
