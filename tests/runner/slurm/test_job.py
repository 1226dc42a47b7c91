"""The Slurm job of a sweep: what it asks for, and what it does when its driver ends or Slurm speaks up.

Slurm, Ray and the driver are stand-ins of bash.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from planner.config.cluster import SlurmSection, seconds_of
from runner.slurm.job import SCRIPT, Job, nodes_for, text_of
from tests.runner.waiting import until

SHARED = Path("/shared/my sweeps/sweep-1")


def job(**changes: Any) -> Job:
    settings = SlurmSection(**changes.pop("settings", {}))
    usual: dict[str, Any] = {
        "name": "rlplan-sweep-1-ab12",
        "sweep": "sweep-1",
        "folder": SHARED,
        "database": SHARED.parent / "r.db",
    }
    usual |= {"directory": Path("/shared"), "programs": Path("/opt/venv/bin"), "nodes": 2, "gpus_per_node": 8}
    return Job(**(usual | {"options": ("--workers", "4"), "settings": settings} | changes))


def asked(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH ")]


def test_it_asks_for_whole_nodes_and_for_a_word_before_the_limit() -> None:
    options = asked(text_of(job()))
    assert {"--nodes=2", "--gpus-per-node=8", "--exclusive", "--mem=0", "--signal=B:USR1@300"} <= set(options)
    assert {"--dependency=singleton", "--requeue", "--no-kill", "--ntasks-per-node=1"} <= set(options)
    assert '--output="/shared/my sweeps/sweep-1/logs/slurm-%j.log"' in options
    assert not any(option.startswith(("--time", "--partition", "--account")) for option in options)


def test_it_asks_for_what_the_section_says_and_its_own_options_come_last() -> None:
    settings = {"time": "2-00:00:00", "partition": "a100", "account": "us", "cpus_per_node": 16, "memory": "100G"}
    text = text_of(job(settings=settings | {"sbatch": ["--qos=high"], "setup": ["module load cuda", "conda activate"]}))
    options = asked(text)
    assert {"--time=2-00:00:00", "--partition=a100", "--account=us", "--cpus-per-task=16", "--mem=100G"} <= set(options)
    assert "--exclusive" not in options
    assert options[-1] == "--qos=high"
    assert text.index("PATH=") < text.index("module load cuda\nconda activate\n") < text.index("srun ")


def test_the_address_of_a_server_stays_in_the_environment() -> None:
    text = text_of(job(database=None))
    assert "--db" not in text
    assert "${RLPLAN_DB:?" in text


@pytest.mark.parametrize(
    ("gpus", "per_node", "said", "nodes"),
    [(64, 8, None, 8), (2, 8, None, 1), (9, 4, None, 3), (64, 8, 2, 2), (0, 8, None, 1)],
)
def test_nodes_hold_the_gpus_of_the_sweep(gpus: int, per_node: int, said: int | None, nodes: int) -> None:
    assert nodes_for(gpus, per_node, SlurmSection(nodes=said)) == nodes


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("90", 5400), ("90:30", 5430), ("1:30:00", 5400), ("2-0", 172_800), ("1-12", 129_600), ("1-0:30", 88_200)],
)
def test_a_time_means_what_it_means_to_sbatch(time: str, seconds: int) -> None:
    assert seconds_of(time) == seconds


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"time": "6:00"}, "give more than 360 s"),
        ({"time": "tomorrow"}, "no time of Slurm"),
        ({"sbatch": ["--signal=USR2@10"]}, "--signal is set by the job itself"),
        ({"sbatch": ["-J mine"]}, "--job-name is set by the job itself"),
        ({"sbatch": ["qos=high"]}, "no option of sbatch"),
        ({"sbatch": ["--qos=a\n#SBATCH --qos=b"]}, "more than one line"),
        ({"setup": ["one\ntwo"]}, "more than one line"),
    ],
)
def test_what_slurm_or_the_job_could_not_work_with_is_refused(section: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SlurmSection(**section)


@pytest.mark.parametrize("sign", ["\n", "\r", "\t", "\x1b", '"', "\\"])
@pytest.mark.parametrize("where", ["directory", "folder", "database", "programs"])
def test_a_path_that_could_end_its_line_is_refused(where: str, sign: str) -> None:
    with pytest.raises(InputError, match=r"in a job's script.*may have neither control characters nor"):
        text_of(job(**{where: Path(f"/shared/a{sign}touch PWNED")}))


def test_signs_that_slurm_would_read_otherwise_are_kept() -> None:
    options = asked(text_of(job(directory=Path("/it's"), folder=Path("/100%#j"))))
    assert {'--chdir="/it\'s"', '--output="/100%%#j/logs/slurm-%j.log"'} <= set(options)


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
