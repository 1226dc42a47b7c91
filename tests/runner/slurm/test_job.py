"""The text of a sweep's Slurm job: what it asks for; tests/runner/slurm/test_body.py runs it."""

from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from planner.config.cluster import SlurmSection, seconds_of
from runner.slurm.job import Job, nodes_for, text_of

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
