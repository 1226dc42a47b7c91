"""A final run by somebody's script is one process from its first validation to its last, whatever was killed before."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from runner.processes import SWEEP_TAG, sweep_tag, tagged
from runner.sweep.worker_records import worker_records
from tests.faults.torment import PATIENCE, ROOT

pytestmark = pytest.mark.soak
COMMAND = str(Path(sys.executable).with_name("rlplan"))
SCRIPT = ROOT / "tests" / "conformance" / "own_trainer.py"
BUDGET, VALIDATIONS = 0.015, 10  # GPU-hours: 54 seconds of a worker
SMALL = "[validation]\nproblems = 16\nsamples = 2\n[pilot]\nfraction = 0.0\n"
TRAINER = """
command = '''{{python}} {script} --group-size {{rollouts_per_prompt}} --batch-size {{prompts_per_batch}}
  --steps {{to_step}} --eval-every {{validate_every}} --save-every {{save_every}} --seed {{seed}} --pause {pause}
  --lr {{learning_rate}} --style jsonl'''
resume = "--resume {{resume_from}}"
began = "^ready"
[metrics]
file = "log.jsonl"
[metrics.columns]
step = "it"
score = "eval/acc"
response_tokens = "length"
[checkpoints]
pattern = "ckpt/it-{{step}}"
complete = "done"
"""


class FinalRun:
    """A final run of a plan's row in a folder."""

    def __init__(self, folder: Path) -> None:
        """Make a plan, and a trainer whose updates take what the plan has."""
        self.folder, self.sweep = folder, folder / "rlplan-sweeps" / "sweep-1-final"
        self.drivers: list[subprocess.Popen[bytes]] = []
        (folder / "rlplan.toml").write_text(SMALL)
        words = ["propose", "--task", "sum-easy", "--budget", str(BUDGET), "--format", "json"]
        done = subprocess.run([COMMAND, *words], cwd=folder, capture_output=True, text=True, check=True)
        rows = json.loads(done.stdout)["candidates"]
        price = next(
            3600 * row["gpu_hours_per_step"]
            for row in rows
            if (row["rollouts_per_prompt"], row["prompts_per_batch"]) == (8, 8)
        )
        (folder / "own.toml").write_text(TRAINER.format(script=SCRIPT, pause=price))

    def drive(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a driver: `launch` with its flags, or `resume`."""
        with (self.folder / "driver.log").open("ab") as log:
            self.drivers.append(subprocess.Popen([COMMAND, *words], cwd=self.folder, stdout=log, stderr=log))
        return self.drivers[-1]

    def launched(self) -> subprocess.Popen[bytes]:
        """Start it."""
        flags = ["--allocation", "n=8,B=8", "--validations", str(VALIDATIONS), "--trainer", "own.toml"]
        return self.drive("launch", "plan-1", *flags)

    def rows(self, query: str) -> list[Any]:
        """Return rows of the database, none while it is being made."""
        try:
            with closing(sqlite3.connect(self.folder / "rlplan.db")) as connection:
                return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []

    def log(self) -> str:
        """Return what its drivers have printed last."""
        return (self.folder / "driver.log").read_text()[-3000:]

    def commits(self, driver: subprocess.Popen[bytes], segments: int) -> None:
        """Wait until so many segments are committed."""
        end = time.monotonic() + PATIENCE
        while self.rows("SELECT count(*) FROM segments WHERE outcome = 'committed' AND to_step > 0")[0][0] < segments:
            assert time.monotonic() < end, self.log()
            assert driver.poll() is None, self.log()
            time.sleep(0.1)

    def processes(self) -> list[psutil.Process]:
        """Return those of it that still live."""
        return [psutil.Process(pid) for pid in tagged({f"{SWEEP_TAG}={sweep_tag(str(self.sweep))}"})]

    def script(self) -> psutil.Process:
        """Return the process that trains; its parent is the worker."""
        (found,) = (one for one in self.processes() if str(SCRIPT) in one.cmdline())
        return found

    def starts(self) -> int:
        """Return how often its script says that it was started."""
        logs = sorted(self.sweep.glob("*/trainer/attempt-*.log"))
        return sum(log.read_text(encoding="utf-8").splitlines().count("ready") for log in logs)

    def check(self, unseen: float = 0.0) -> None:
        """Hold it against its promise: nothing is lost, nothing twice, nothing uncharged, nothing beyond the budget.

        `unseen` are the seconds between the last word of a killed worker and the driver's sight of its end.
        """
        committed = self.rows("SELECT from_step, to_step FROM segments WHERE outcome = 'committed' ORDER BY id")
        assert all(before[1] == after[0] for before, after in pairwise(committed)), committed
        assert self.rows("SELECT count(*) FROM segments WHERE outcome = 'reserved'") == [(0,)]
        (metrics,) = self.sweep.glob("*/metrics.jsonl")
        steps = [json.loads(line)["step"] for line in metrics.read_text(encoding="utf-8").splitlines()]
        assert steps == list(range(committed[-1][1] + 1))
        assert self.rows("SELECT count(*), count(DISTINCT optimizer_step || '-' || attempt) FROM points") == [
            (count := self.rows("SELECT count(*) FROM points")[0][0], count)
        ]
        charges = "SELECT sum(charged_gpu_hours) FROM segments UNION ALL SELECT sum(gpu_hours) FROM charges"
        charged = sum(row[0] or 0.0 for row in self.rows(charges))
        lived = sum(life.gpu_hours for life in worker_records(self.sweep).values())
        assert lived <= charged + 1e-3 / 3600
        assert charged <= lived + (1 + unseen) / 3600
        assert charged <= BUDGET
        assert not self.processes()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[FinalRun]:
    """A final run that is ended with its test."""
    made = FinalRun(tmp_path)
    yield made
    for driver in made.drivers:
        driver.kill()
        driver.wait(PATIENCE)


@pytest.mark.parametrize("victim", [None, "script", "worker", "driver"])
def test_its_script_is_started_once_and_once_after_a_kill(victim: str | None, run: FinalRun) -> None:
    driver = run.launched()
    if victim is not None:
        run.commits(driver, 3)
        assert run.starts() == 1
        script = run.script()
        worker = script.parent()
        assert worker is not None
        os.kill({"script": script, "worker": worker, "driver": driver}[victim].pid, signal.SIGKILL)
        if victim == "driver":
            driver.wait(PATIENCE)
            driver = run.drive("resume")
    assert driver.wait(2 * PATIENCE) in (0, 5), run.log()
    run.check(unseen=5.0 if victim == "worker" else 0.0)
    segments = run.rows("SELECT count(*) FROM segments WHERE outcome = 'committed'")[0][0]
    assert segments > VALIDATIONS / 2
    assert run.starts() == (1 if victim is None else 2)
