"""Real signals to a real process; its updates wait for a byte of a pipe each, so that nothing depends on time."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.rlplan.conftest import Run, Use
from tests.rlplan.train_backend import Scripted, steps

ROOT = Path(__file__).parents[2]


class Waiting:
    """A run whose updates wait."""

    def __init__(self, folder: Path) -> None:
        pipe, begun = folder / "pipe", folder / "pipe-begun"
        os.mkfifo(pipe)
        os.mkfifo(begun)
        script = [sys.executable, "-m", "tests.rlplan.train_backend", str(pipe)]
        self.process = subprocess.Popen(
            [*script, "train", "--task", "sum-easy", "--steps", "10", "--out", str(folder / "here")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._updates: BinaryIO = pipe.open("wb", buffering=0)  # opens once the run is about to begin
        self._begun: BinaryIO = begun.open("rb", buffering=0)
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._out, self._err = self.process.stdout, self.process.stderr

    def allow(self, updates: int) -> None:
        self._updates.write(b"." * updates)

    def wait_for_update(self, number: int) -> None:
        """Wait until an update has begun."""
        while (begun := self._begun.readline()) != b"%d\n" % number:
            assert begun, f"it ended before update {number}"

    def said(self, text: str) -> None:
        """Wait until a line says so."""
        assert any(text in line for line in self._err), text

    def ended(self) -> tuple[int, str, str]:
        # Before communicate(), which does not see what came with the line that was waited for.
        err, out = self._err.read(), self._out.read()
        self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def close(self) -> None:
        self._updates.close()
        self._begun.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    run = Waiting(tmp_path)
    yield run
    run.close()


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_once_finishes_the_update_saves_and_says_how_to_go_on(
    waiting: Waiting, run: Run, use: Use, tmp_path: Path, signal_: signal.Signals
) -> None:
    waiting.allow(3)
    waiting.wait_for_update(4)
    waiting.process.send_signal(signal_)
    waiting.said("stopping after the update under way; once more stops at once")
    waiting.allow(1)
    code, out, err = waiting.ended()
    folder = tmp_path / "here"
    assert (code, out) == (130, "")
    assert steps(folder)[-1] == 4
    assert err.endswith(f"stopped after step 4 of 10; go on with `rlplan train --resume --out {folder}`\n")
    assert (folder / "checkpoint-00000004.pt").exists()
    use(Scripted())
    assert run("train", "--resume", "--out", str(folder)).code == 0
    assert steps(folder) == list(range(11))


def test_twice_stops_at_once_and_the_last_checkpoint_stands(waiting: Waiting, tmp_path: Path) -> None:
    waiting.allow(2)
    waiting.wait_for_update(3)
    waiting.process.send_signal(signal.SIGINT)
    waiting.said("stopping after the update under way")
    waiting.process.send_signal(signal.SIGTERM)
    code, out, err = waiting.ended()
    assert (code, out) == (130, "")
    assert "Traceback" not in err
    assert steps(tmp_path / "here") == [0, 1, 2]
    assert "stopped at once; go on from the last checkpoint" in err


def test_while_the_run_is_made_ready_one_signal_is_enough(tmp_path: Path) -> None:
    pipe = tmp_path / "rlplan.toml"
    os.mkfifo(pipe)
    command = [str(Path(sys.executable).with_name("rlplan")), "train", "--task", "sum-easy", "--config", str(pipe)]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with pipe.open("w"):  # opens once the command reads its configuration, and keeps it waiting there
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "")
    assert not (tmp_path / "runs").exists()
