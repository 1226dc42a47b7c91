"""A sweep as jobs of a real Slurm, over two time limits and a scancel; needs root, slurm-wlm, munge and bindfs."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.slurm_nodes import Slurm, missing, slurm_nodes, until
from tests.faults.torment import ROOT, Tormented, check, undisturbed

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(
        (os.geteuid() != 0 or bool(missing())) and not os.environ.get("RLPLAN_REQUIRE_SLURM"),
        reason="needs root, iproute2, slurm-wlm, munge and bindfs",
    ),
]
LONGEST_SECONDS = 1800.0
# To a limit of which Slurm gives notice at its next look, all 30 s: as soon as the margin and 30 s are left.
NEAR_SECONDS = 65


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with tempfile.TemporaryDirectory(prefix="rlp-", dir="/tmp") as folder, slurm_nodes(Path(folder)) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return undisturbed(tmp_path_factory.mktemp("undisturbed"))


class Submitted(Tormented):
    """A sweep that Slurm runs."""

    def logs(self) -> dict[str, str]:
        """Return what the script of each job has said, by the job's number."""
        found = (self.folder / "sweeps" / "sweep-1" / "logs").glob("slurm-*.log")
        return {path.stem.removeprefix("slurm-"): path.read_text() for path in found if "ray" not in path.name}

    def is_in_the_middle(self) -> bool:
        """Whether something is saved, and more is under way."""
        outcomes = self.rows("SELECT outcome FROM segments WHERE worker IS NOT NULL")
        return {("committed",), ("reserved",)} <= set(outcomes)

    def trains_beyond(self, segments: set[int]) -> bool:
        """Whether a worker trains a segment that is none of these."""
        reserved = self.found("SELECT id FROM segments WHERE outcome = 'reserved' AND worker IS NOT NULL")
        return bool({row[0] for row in reserved} - segments)

    def has_ended(self) -> bool:
        return self.rows("SELECT status FROM sweeps") == [("finished",)]


def submit(slurm: Slurm, folder: Path, pause: float, limit: str) -> Submitted:
    """Submit a sweep whose updates take so long."""
    (folder / "rlplan.toml").write_text("[slurm]\nnodes = 2\nmargin_seconds = 30\n")
    submitter = (sys.executable, "-m", "tests.faults.slurm_submitter", str(folder / "rlplan.db"), str(pause), limit)
    slurm.run("env", f"PYTHONPATH={ROOT}", *submitter, cwd=folder)
    return Submitted(folder)


def test_a_sweep_over_two_time_limits_in_a_shared_folder_ends_as_if_there_were_none(
    slurm: Slurm, calm: dict[str, Any]
) -> None:
    sweep = submit(slurm, slurm.shared, 0.15, "30")
    for _ in range(2):
        before = {row[0] for row in sweep.found("SELECT id FROM segments")}
        until(lambda before=before: sweep.trains_beyond(before), f"nothing trains: {sweep.logs()}", 300)
        (job,) = (number for number, state in slurm.jobs().items() if state == "RUNNING")
        slurm.end_in(job, NEAR_SECONDS)
        until(lambda job=job: job not in slurm.jobs(), f"it has not stopped: {sweep.logs()}", 300)
    until(lambda: not slurm.jobs(), f"it has not ended: {sweep.logs()}", LONGEST_SECONDS)
    logs = sweep.logs()
    assert len(logs) == 3, logs
    assert sweep.has_ended(), logs
    assert (slurm.shared / "rlplan.db-journal").exists()  # and no log, which two machines cannot share
    *before, last = (logs[number] for number in sorted(logs, key=int))
    assert all("the time limit is near" in log for log in before), logs
    assert "sweep-1 has ended" in last
    assert re.search(r"Expected\s+score", last)
    check(sweep, calm)


def test_what_scancel_ends_goes_on_when_it_is_submitted_again(
    slurm: Slurm, calm: dict[str, Any], tmp_path: Path
) -> None:
    sweep = submit(slurm, tmp_path, 0.06, "30")
    until(sweep.is_in_the_middle, f"nothing trains: {sweep.logs()}", 300)
    (number,) = slurm.jobs()
    slurm.run("scancel", number)
    until(lambda: not slurm.jobs(), "it was submitted again, or has not ended")
    assert "cancelled" in sweep.logs()[number]
    assert not sweep.has_ended()
    assert not sweep.processes()
    slurm.run(str(Path(sys.executable).with_name("rlplan")), "resume", "--slurm", "--sbatch=--time=30", cwd=tmp_path)
    until(lambda: not slurm.jobs(), f"it has not ended: {sweep.logs()}", LONGEST_SECONDS)
    assert sweep.has_ended(), sweep.logs()
    check(sweep, calm)
