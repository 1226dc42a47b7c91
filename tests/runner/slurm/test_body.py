"""What a sweep's job does when its driver ends or Slurm speaks up; Slurm, Ray and the driver are stand-ins of bash."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.config.cluster import SlurmSection
from runner.slurm.job import SCRIPT, Job, text_of
from tests.runner.waiting import until

PROGRAMS = {
    "sbatch": 'echo "sbatch $*" >> calls; echo 8',
    "scancel": 'echo "scancel $*" >> calls',
    "scontrol": """case $2 in
job) echo "JobState=COMPLETING Requeue=1 Restarts=0 ExitCode=0:0 $(cat reason)" ;;
node) echo NodeName=one NodeAddr=10.1.2.3 State=ALLOCATED ;;
esac""",
    "getent": "echo $2 STREAM",
    "srun": "echo Ray runtime started.; touch ray-runs; sleep 60 & trap 'kill $!' TERM; wait",
    # A driver that saves when it is asked to, and ends at once when it is asked again.
    "rlplan": """echo "rlplan $*" >> calls
[ -z "$ENDS_WITH" ] || exit "$ENDS_WITH"
trap 'echo asked >> calls; : > asked; trap "echo at once >> calls; exit 130" TERM' TERM
touch driver-runs
until [ -e asked ] && [ -e saved ]; do sleep 0.02; done
exit "${STOPS_WITH:-130}\"""",
}


class Running:
    """A job that runs."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder, self.process = folder, process

    def calls(self) -> str:
        path = self.folder / "calls"
        return path.read_text() if path.exists() else ""

    def end(self) -> int:
        return self.process.wait(60)

    def until_driven(self) -> None:
        until((self.folder / "driver-runs").exists)

    def until_called(self, text: str) -> None:
        until(lambda: text in self.calls())


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "logs").mkdir()
    (tmp_path / "reason").write_text("Reason=None")
    job = Job("rlplan-s", "sweep-1", tmp_path, tmp_path / "r.db", tmp_path, programs, 1, 0, (), SlurmSection())
    script = tmp_path / SCRIPT
    script.write_text(text_of(job))
    begun: list[Running] = []

    def started(**environment: str) -> Running:
        slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "one", "SLURMD_NODENAME": "one"}
        process = subprocess.Popen(
            ["bash", str(script)], cwd=tmp_path, env=os.environ | slurm | environment, start_new_session=True
        )
        begun.append(Running(tmp_path, process))
        return begun[-1]

    yield started
    for each in begun:
        if each.process.poll() is None:
            os.killpg(each.process.pid, signal.SIGKILL)
            each.process.wait()


@pytest.mark.parametrize(("driver", "job"), [(0, 0), (5, 5), (3, 0), (2, 2), (4, 4), (1, 1), (130, 0)])
def test_what_ends_by_itself_is_not_submitted_again(start: Start, driver: int, job: int) -> None:
    running = start(ENDS_WITH=str(driver))
    assert running.end() == job
    asked = f"rlplan resume sweep-1 --db {running.folder}/r.db --wait=120 --ray-address=10.1.2.3:20007\n"
    assert running.calls() == asked


def test_before_the_time_limit_the_driver_saves_and_another_job_goes_on(start: Start) -> None:
    running = start()
    running.until_driven()
    running.process.send_signal(signal.SIGUSR1)
    running.until_called("asked")
    assert "sbatch --parsable --dependency=singleton,afterany:7 " in running.calls()
    assert running.process.poll() is None  # while it saves
    (running.folder / "saved").touch()
    assert running.end() == 0
    assert "scancel" not in running.calls()
    assert "at once" not in running.calls()


def test_a_sweep_that_ends_while_it_is_stopped_needs_no_other_job(start: Start) -> None:
    running = start(STOPS_WITH="0")
    running.until_driven()
    running.process.send_signal(signal.SIGUSR1)
    running.until_called("asked")
    (running.folder / "saved").touch()
    assert running.end() == 0
    assert running.calls().endswith("scancel 8\n")


@pytest.mark.parametrize("near_the_limit", [False, True])
def test_what_is_cancelled_is_not_submitted_again(start: Start, near_the_limit: bool) -> None:
    running = start()
    running.until_driven()
    if near_the_limit:
        running.process.send_signal(signal.SIGUSR1)
        running.until_called("asked")
    os.killpg(running.process.pid, signal.SIGTERM)  # as Slurm does: the driver gets it too
    assert running.end() == 0
    assert running.calls().count("at once") == 1
    assert ("scancel 8" in running.calls()) == ("sbatch" in running.calls()) == near_the_limit


@pytest.mark.parametrize("reason", ["Reason=TimeLimit", "Reason=None PreemptTime=2026-11-23T00:43:17"])
def test_what_is_ended_without_a_warning_goes_on_all_the_same(start: Start, reason: str) -> None:
    running = start()
    running.until_driven()
    (running.folder / "reason").write_text(reason)
    (running.folder / "saved").touch()  # the driver gets two signals, which may come as one
    os.killpg(running.process.pid, signal.SIGTERM)
    assert running.end() == 0
    assert "sbatch" in running.calls()
    assert "scancel" not in running.calls()


def test_what_slurm_itself_runs_again_is_not_submitted_beside_it(start: Start) -> None:
    running = start(SLURM_RESTART_COUNT="-1")  # Slurm has counted one more than this run
    running.until_driven()
    (running.folder / "saved").touch()  # as above
    os.killpg(running.process.pid, signal.SIGTERM)
    assert running.end() == 0
    assert "sbatch" not in running.calls()
