"""Databases whose answers are recorded: a plan, a running sweep, a finished one, failed trials, a final run."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlplan.actions.final_run import launch
from rlplan.actions.sweeping import start
from rlplan.cli import app
from rlplan.requests.run import LaunchRequest
from tests.rlplan.sweep_rows import seeded
from tests.rlplan.test_sweeping import request, simulate

PROPOSE = ("propose", "--budget", "5000", "--gpu", "h100", "--gpus", "32", "--gpus-per-trial", "8")


def propose_plan(folder: Path) -> None:
    """Store the plan of the default workload on 32 GPUs."""
    result = CliRunner().invoke(app, [*PROPOSE, "--db", str(folder / "rlplan.db")], catch_exceptions=False)
    assert result.exit_code == 0


def seed_running_sweep(folder: Path) -> None:
    """Store a sweep in the middle of its life: trials in every state, idle time, open segments."""
    seeded(folder / "rlplan.db").store.close()


def run_sweep(folder: Path) -> None:
    """Run the pilots of a plan to their end, with simulated workers."""
    start(request(budget=0.5, policy="rlplan", db=str(folder / "rlplan.db")))


def run_failing_sweep(folder: Path) -> None:
    """Run pilots of which the dearer ones fail."""
    start(request(budget=0.5, policy="rlplan", failures={"most_rollouts": 100}, db=str(folder / "rlplan.db")))


def run_final(folder: Path) -> None:
    """Run the pilots and the final run that they recommend."""
    run_sweep(folder)
    launch(LaunchRequest(validations=8, db=str(folder / "rlplan.db")))


DATABASES: dict[str, Callable[[Path], None]] = {
    "plan": propose_plan,
    "running": seed_running_sweep,
    "finished": run_sweep,
    "failed": run_failing_sweep,
    "final": run_final,
}


def make_database(folder: Path, name: str, made: Mapping[str, Callable[[Path], None]] = DATABASES) -> None:
    """Write a database, and what its sweeps leave beside it, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        simulate(patch)
        made[name](folder)
