"""A sweep that has ended, as its driver left it, told to be one of real training; its trials' folders are there."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import select

from planner.policy.policies import open_policy
from planner.store import open_store
from planner.store.schema import Sweep, Trial
from planner.view import TrialView
from runner.sweep.conclusions import stored_board
from runner.sweep.home import mark_folder
from runner.training.trial import METRICS
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.runner.sweep.test_driver import PLAIN

SWEEP = "sweep-1"
PILOTED = "3"  # GPU-hours of a final run at which one with a pilot is recommended


def ended(path: Path, *, real: bool = True, saved: bool = False, content: bytes | None = None, **training: Any) -> Path:
    """Write the database of a sweep; `saved` gives each trial the checkpoint and points of a scripted backend."""
    path.write_bytes(content or _written())
    with open_store(path) as store, store.write() as session:
        row = session.scalars(select(Sweep)).one()
        row.config = {**row.config, "folder": str(path.parent / "trials")}
        if real:
            row.config["training"] = {**row.config["training"], "simulation": None, **training}
            for trial in session.scalars(select(Trial)):
                trial.config = {**trial.config, "simulation": None, **training}
        if saved:
            mark_folder(path.parent / "trials", row, store.location)
    if saved:
        for trial in trials(path):
            _save(path.parent / "trials" / trial.name, trial)
    return path


def trials(path: Path) -> list[TrialView]:
    with open_store(path, read_only=True) as store, store.read() as session:
        return list(stored_board(session, SWEEP).trials.values())


def _save(folder: Path, trial: TrialView) -> None:
    if not trial.step:
        return
    folder.mkdir(parents=True)
    (folder / f"checkpoint-{trial.step:08d}.pt").write_text(json.dumps(trial.step))
    lines = [
        {
            "step": seen.step,
            "rollouts": seen.step * trial.rollouts_per_prompt * trial.prompts_per_batch,
            "tokens": 0,
            "seconds": 3600 * seen.gpu_hours,
            "gpu_hours": seen.gpu_hours,
            "score": seen.score,
            "score_standard_error": 0.01,
            "metrics": {},
            "flags": [],
        }
        for seen in trial.scores
    ]
    (folder / METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"torn": ')


@cache
def _written() -> bytes:
    with TemporaryDirectory() as folder:
        given = SimulatedSweep(Path(folder) / "rlplan.db", choice=PLAIN, policy="asha")
        given.run(open_policy("asha"))
        with given.store() as store, store.write() as session:
            session.scalars(select(Sweep)).one().config = given.spec.model_dump(mode="json")
        return (Path(folder) / "rlplan.db").read_bytes()
