"""A final run by somebody else's trainer that falls: followed, warned of, and gone back in to its best checkpoint."""

import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import Session

from planner.store import open_store
from planner.store.read_model import sweep_snapshot
from planner.store.schema import Decision, Point, Sweep, Trial
from rlplan.actions.sweeping import start
from rlplan.requests.run import SweepRequest
from runner.ports.trial import Costs, SimulationChoice
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import spent_of

PATIENCE = 120.0
FALL = 450  # update from which the final run's scores fall; no pilot gets so far
TRAINER = f"""
name = "standin"
[options]
driver = "tests.trainer_forms.driver:FormDriver"
options = {{ trainer = "verl" }}
time_scale = 30
save_every_steps = 20
[[options.faults]]
kind = "fall"
at_step = {FALL}
attempts = 0
"""
WORLD = SimulationChoice(
    seed=3,
    rollouts_scale=0.03,
    costs=Costs(seconds_per_update=0.5, seconds_per_rollout=1e-4, seconds_per_answer=0.0, start_up_seconds=5.0),
)


def swept(folder: Path) -> None:
    """Run pilots whose final run falls."""
    (folder / "trainer.toml").write_text(TRAINER)
    few = {"pilot.most_pilots": ("", 2), "validation.every_steps": ("", 40), "pilot.fraction": ("", 0.3)}
    request = SweepRequest(
        task="sum-easy",
        budget=0.3,
        further=few,
        policy="full",
        workers=2,
        trainer=str(folder / "trainer.toml"),
        simulation=WORLD.model_dump(mode="json"),
        db=str(folder / "rlplan.db"),
    )
    assert not start(request).interrupted


@dataclass(frozen=True)
class Pilot:
    """A trial of the sweep, and where it stands."""

    step: int
    config: dict[str, Any]


def longest_pilot() -> tuple[Pilot, str]:
    """Return the pilot that got farthest, and its allocation as an option has it."""
    with open_store("rlplan.db", read_only=True) as store, store.read() as session:
        stands = sweep_snapshot(session, "sweep-1")
        steps = {each.id: stands.committed_step(each.id) for each in stands.trials}
        longest = max(stands.trials, key=lambda each: steps[each.id])
        allocation = f"n={longest.rollouts_per_prompt},B={longest.prompts_per_batch}"
        return Pilot(steps[longest.id], longest.config), allocation


def status(run: Run) -> dict[str, Any]:
    final: dict[str, Any] = run.json("status", "sweep-1")["final"] or {"warnings": []}
    return final


def scores(session: Session, sweep: str) -> dict[int, float]:
    """Return what the trial of a final run scored, by its updates."""
    of = session.query(Trial).join(Sweep, Sweep.id == Trial.sweep_id).filter(Sweep.name == sweep).one()
    found = session.query(Point).filter(Point.trial_id == of.id, Point.score.is_not(None)).order_by(Point.attempt)
    return {point.optimizer_step: point.score for point in found if point.score is not None}


@pytest.mark.soak
def test_a_fall_is_warned_of_and_the_named_command_goes_back_to_the_best(run: Run, tmp_path: Path) -> None:
    swept(tmp_path)
    asked = ["launch", "--validations", "20", "--allocation", longest_pilot()[1]]
    planned = run.json(*asked, "--dry-run")
    assert planned["from_step"] > 0, planned["notes"]
    assert planned["from_step"] < FALL < planned["update_steps"] / 2
    with (tmp_path / "launch.log").open("wb") as log:
        command = [str(Path(sys.executable).with_name("rlplan")), *asked]
        launched = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
    deadline = time.monotonic() + PATIENCE
    followed = status(run)
    while "fall" not in {each["rule"] for each in followed["warnings"]}:
        assert time.monotonic() < deadline, (tmp_path / "launch.log").read_text()[-3000:]
        assert launched.poll() is None, (tmp_path / "launch.log").read_text()[-3000:]
        time.sleep(0.2)
        followed = status(run)
    assert followed["status"] == "running"
    assert followed["promised"]["low"] < followed["promised"]["score"] < followed["promised"]["high"]
    assert followed["expected"]["low"] <= followed["expected"]["score"] <= followed["expected"]["high"]
    (warned,) = [each for each in followed["warnings"] if each["rule"] == "fall"]
    named = re.search(r"`(rlplan launch sweep-1 --from-best[^`]*)`", warned["said"])
    assert named is not None, warned
    assert run("launch", "sweep-1", "--from-best").code == 2  # it is running
    assert run("stop", "sweep-1").code == 0
    assert launched.wait(PATIENCE) == 130
    first = status(run)
    best = first["kept"]
    assert 0 < best["step"] < FALL
    assert first["best"]["score"] - best["score"] < 0.1
    (saved,) = (Path(first["best_folder"]) / "trainer" / "checkpoints").glob("global_step_*")
    step = int(saved.name.rpartition("_")[2])  # a pilot is saved at its end too, which may be after its last score
    assert best["step"] <= step < FALL

    assert run("launch", "--learning-rate", "1e-7").code == 2
    ran = run(*shlex.split(named[1])[1:], "--validations", "20", "--format", "json")
    assert ran.code == 5, ran.err  # the stand-in's scores fall again
    again = ran.json["final"]
    assert (again["sweep"], again["from_step"], again["status"]) == ("sweep-1-final-2", step, "finished")
    assert "fall" in {each["rule"] for each in again["warnings"]}
    assert again["best"]["score"] >= best["score"]
    with open_store("rlplan.db", read_only=True) as store, store.read() as session:
        before, after = scores(session, "sweep-1-final"), scores(session, "sweep-1-final-2")
        assert after[best["step"]] == best["score"]
        assert {at: score for at, score in before.items() if at <= step}.items() <= after.items()
        trial = session.query(Trial).join(Sweep, Sweep.id == Trial.sweep_id).filter(Sweep.name == again["sweep"]).one()
        assert sweep_snapshot(session, again["sweep"]).segments[trial.id][0].charged_gpu_hours == 0.0
        assert str(trial.learning_rate) in named[1] or f"{trial.learning_rate:.3g}" in named[1]
        assert not session.query(Decision).filter(Decision.action == "best-not-kept").count()
    assert spent_of("rlplan.db") > 0
