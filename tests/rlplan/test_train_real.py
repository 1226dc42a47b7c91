"""`rlplan train` with the real backend, in a process of its own: torch keeps its threads from the other tests."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = str(Path(sys.executable).with_name("rlplan"))
SMALL = ("--task", "sum-easy", "-n", "8", "-B", "8", "--problems", "16", "--samples", "2", "--validate-every", "128")
ENV = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "HOME": "/tmp"}


def train(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, "train", *args], cwd=folder, capture_output=True, text=True, check=False, env=ENV)


def without_times(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        del line["seconds"], line["gpu_hours"], line["metrics"]["seconds"]
    return lines


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run of 6 updates."""
    folder = tmp_path_factory.mktemp("whole")
    done = train(folder, *SMALL, "--steps", "6", "--out", "here", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [line.split(" ")[0] for line in done.stderr.splitlines()] == ["sum-easy,", *["step"] * 4], done.stderr
    document = json.loads(done.stdout)
    assert [point["step"] for point in document["points"]] == [0, 2, 4, 6]
    assert 0 < document["final"]["score"] < 1
    assert document["final"]["rollouts"] == 6 * 64
    return folder / "here"


def test_an_interrupted_run_goes_on_to_be_the_whole_run(whole: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "train", *SMALL, "--steps", "6", "--out", "here"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=ENV,
    )
    assert process.stderr is not None
    assert any("step 2/6" in line for line in process.stderr)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    if process.returncode != 0:  # a fast machine may have been done before the signal came
        assert process.returncode == 130
        assert train(tmp_path, "--resume", "--out", "here").returncode == 0
    assert without_times(tmp_path / "here") == without_times(whole)


def test_a_checkpoint_that_is_damaged_falls_back(whole: Path, tmp_path: Path) -> None:
    assert train(tmp_path, *SMALL, "--steps", "4", "--out", "here").returncode == 0
    newest = max((tmp_path / "here").glob("checkpoint-*.pt"))
    newest.write_bytes(newest.read_bytes()[:-100])
    done = train(tmp_path, "--resume", "--out", "here", "--steps", "6")
    assert done.returncode == 0, done.stderr
    assert f"{newest.name} is damaged" in done.stderr
    assert "going on after step 2 of 6" in done.stderr
    assert without_times(tmp_path / "here") == without_times(whole)


def test_every_metric_is_explained(whole: Path) -> None:
    shown = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    for line in without_times(whole):
        assert [name for name in line["metrics"] if f"`{name}`" not in shown] == []
