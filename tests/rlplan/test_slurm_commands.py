"""`rlplan sweep --slurm` and `rlplan resume --slurm`: what is stored, written and submitted. sbatch is a stand-in."""

import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from planner.store import open_store
from planner.store.control import Driver
from planner.store.schema import Sweep, SweepStatus, Trial
from planner.view import TrialState
from rlplan.actions.configuration import load_configuration
from rlplan.actions.stored_plan import make_plan
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import hold, rows
from tests.rlplan.test_screens import check, next_of

SWEEP = ("sweep", "--slurm")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a plan, which takes a while to make."""
    database = tmp_path_factory.mktemp("planned") / "rlplan.db"
    flags = {"budget.gpu_hours": ("--budget", 0.3), "pilot.fraction": ("--pilot-fraction", 0.4)}
    flags |= {"proposal.explore": ("--explore", True)}
    make_plan(load_configuration(None, "sum-easy", flags), str(database))
    return database


@pytest.fixture(autouse=True)
def with_a_plan(run: Run, planned: Path, tmp_path: Path) -> None:
    shutil.copy(planned, tmp_path)


def script_of(tmp_path: Path) -> Path:
    return tmp_path / "rlplan-sweeps" / "sweep-1" / "slurm.sh"


def test_a_sweep_is_stored_and_its_job_submitted(run: Run, sbatch: Path, tmp_path: Path) -> None:
    Path("rlplan.toml").write_text('[slurm]\nnodes = 3\ntime = "8:00:00"\npartition = "gpu"\nsetup = ["true"]\n')
    ran = run(*SWEEP, "--sbatch=--time=4:00:00", "--sbatch", "--qos=high")
    assert ran.code == 0
    script = script_of(tmp_path)
    assert sbatch.read_text() == f"--parsable {script} \n"
    text = script.read_text()
    for option in ("nodes=3", "time=4:00:00", "partition=gpu", "qos=high"):
        assert text.count(f"#SBATCH --{option}\n") == 1
    assert "8:00:00" not in text
    assert (script.parent / "logs").is_dir()  # Slurm makes no folder for a log
    said = ran.text
    assert "sweep-1 of plan-1 on 3 nodes, 4:00:00 each time: submitted as job 41" in said
    check(ran.out)
    assert [words[1:] for words in next_of(ran.out)] == [["status", "--watch", "sweep-1"], ["stop", "sweep-1"]]
    assert "created" in run("status").out


def test_a_job_that_is_only_written_can_be_submitted_by_hand(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlplan.actions.sweeping.notes_of", lambda *_: ["the clip is trained otherwise"])
    ran = run(*SWEEP, "--dry-run", "--format", "json")
    assert ran.code == 0
    assert "the clip is trained otherwise" in ran.err  # as without Slurm
    document = ran.json
    assert (document["sweep"], document["job"], document["nodes"]) == ("sweep-1", None, 1)
    assert document["script"] == str(script_of(tmp_path))
    assert f"rlplan resume sweep-1 --db {tmp_path}/rlplan.db " in script_of(tmp_path).read_text()
    screen = run(*SWEEP, "--dry-run").out
    by_hand = re.search(r"^  sbatch (\S+)", re.sub(r" \\\n +", " ", screen), re.MULTILINE)
    assert by_hand is not None, screen
    assert "nothing was submitted." in screen
    assert Path(by_hand[1]).exists()
    assert run(*next_of(screen)[0][1:]).code == 0


def test_a_stored_sweep_is_submitted_and_a_script_that_was_changed_by_hand_is_kept(
    run: Run, sbatch: Path, tmp_path: Path
) -> None:
    run(*SWEEP)
    script = script_of(tmp_path)
    script.write_text(script.read_text() + "# mine\n")
    ran = run("resume", "--slurm", "--workers", "2", "--format", "json")
    assert (ran.code, ran.json["job"]) == (0, "41")
    assert "--wait=120 --workers 2)" in script.read_text()
    assert script.with_name("slurm.sh.before").read_text().endswith("# mine\n")
    assert sbatch.read_text().count("--parsable") == 2


def test_what_slurm_refuses_is_told_in_its_words_and_nothing_is_lost(run: Run, sbatch: Path, tmp_path: Path) -> None:
    (tmp_path / "refuses").touch()
    ran = run(*SWEEP)
    assert ran.code == 2
    assert "(sbatch: error: invalid account)" in ran.err
    assert "rlplan resume --slurm" in ran.err
    (tmp_path / "refuses").unlink()
    assert run("resume", "--slurm").code == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--ray-address", "auto"), "leave one out"),
        (("--sbatch=--signal=TERM",), "--sbatch: --signal is set by the job itself"),
        (("--sbatch=--time=5",), "--sbatch=--time: time = '5' leaves nothing to work in"),
        ((), "there is no sbatch on this machine"),
    ],
)
def test_what_cannot_be_submitted_is_refused_before_anything_is_stored(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = run(*SWEEP, *flags)
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert rows("rlplan.db", Sweep) == []


def test_a_sweep_that_is_driven_is_not_submitted(run: Run, sbatch: Path, tmp_path: Path) -> None:
    run(*SWEEP)
    hold("rlplan.db", Driver("a", "another-host", 1), datetime.now(UTC) - timedelta(seconds=5))
    ran = run("resume", "--slurm")
    assert ran.code == 2
    assert "being driven by process 1 on another-host" in ran.err
    assert sbatch.read_text().count("--parsable") == 1


def failed(database: Path) -> list[str]:
    """Have a sweep end with two failed trials, and return their names."""
    with open_store(database) as store, store.write() as session:
        trials = session.query(Trial).order_by(Trial.id).limit(2).all()
        for trial in trials:
            trial.state, trial.failure_class = TrialState.FAILED, "out-of-memory"
        session.query(Sweep).one().status = SweepStatus.FINISHED
        return [trial.name for trial in trials]


def states(database: Path) -> tuple[SweepStatus, list[TrialState]]:
    (sweep,) = rows(database, Sweep)
    return sweep.status, [trial.state for trial in rows(database, Trial)[:2]]


def test_failed_trials_are_run_again_by_a_job(run: Run, sbatch: Path, tmp_path: Path) -> None:
    database = tmp_path / "rlplan.db"
    run(*SWEEP)
    assert "no trial of sweep-1 has failed" in run("retry", "--slurm").err
    first, _ = failed(database)
    assert run("resume", "--slurm").code == 3  # which leaves what has failed
    (tmp_path / "refuses").touch()
    refused = run("retry", "--slurm")
    assert (refused.code, "rlplan retry --slurm" in refused.err) == (2, True)
    assert states(database) == (SweepStatus.FINISHED, [TrialState.FAILED, TrialState.FAILED])
    (tmp_path / "refuses").unlink()
    ran = run("retry", "--slurm", "--trial", first, "--workers", "2", "--format", "json")
    assert (ran.code, ran.json["job"]) == (0, "41")
    assert states(database) == (SweepStatus.INTERRUPTED, [TrialState.PLANNED, TrialState.FAILED])
    assert "rlplan resume sweep-1" in script_of(tmp_path).read_text()


@pytest.mark.parametrize(("states", "code"), [("COMPLETING", 0), ("COMPLETING\nRUNNING", 2), ("", 2)])
def test_right_after_scancel_the_next_job_waits_for_the_end_of_the_one_before(
    run: Run, sbatch: Path, tmp_path: Path, states: str, code: int
) -> None:
    squeue = tmp_path / "programs" / "squeue"
    squeue.write_text(f"#!/bin/bash\necho \"$*\" >> {tmp_path}/asked\necho '{states}'\n")
    squeue.chmod(0o755)
    run(*SWEEP)
    hold("rlplan.db", Driver("a", "another-host", 1), datetime.now(UTC) - timedelta(seconds=5))
    assert run("resume", "--slurm").code == code
    assert "--name=rlplan-sweep-1-" in (tmp_path / "asked").read_text()
    assert sbatch.read_text().count("--parsable") == (1 if code else 2)
