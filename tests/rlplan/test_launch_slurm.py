"""`rlplan launch --slurm` and `--from-best` on a stored sweep; sbatch is a stand-in, and workers are simulated."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from budgets.errors import BudgetError, NotFoundError
from planner.store import open_store
from planner.store.curves import points_of
from planner.store.finals import Final, ForecastOfFinal
from planner.store.schema import Plan, Sweep, SweepStatus, Trial
from rlplan.actions import sweeping
from rlplan.actions.launching import describe, launch
from rlplan.requests.running import LaunchRequest
from runner.ports.executor import Event
from runner.ports.trial import TrialConfig
from runner.training import checkpoints
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import rows, spent_of
from tests.rlplan.test_slurm_commands import sbatch  # noqa: F401  (a fixture)
from tests.rlplan.test_sweeping import Simulated, Stopping

pytestmark = pytest.mark.usefixtures("swept")


def test_a_final_run_is_stored_and_its_job_submitted(run: Run, sbatch: Path, tmp_path: Path) -> None:  # noqa: F811
    submitted = run.json("launch", "--slurm", "--sbatch=--time=4:00:00", "--validations", "8")
    assert (submitted["sweep"], submitted["job"]) == ("sweep-1-final", "41")
    script = Path(submitted["script"])
    assert script == tmp_path / "rlplan-sweeps" / "sweep-1-final" / "slurm.sh"
    assert sbatch.read_text() == f"--parsable {script} \n"
    assert f"rlplan resume sweep-1-final --db {tmp_path}/rlplan.db " in script.read_text()
    (final,) = rows("rlplan.db", Final)
    assert final.promised_score > 0
    assert rows("rlplan.db", Sweep)[-1].status is SweepStatus.CREATED
    assert run("launch", "--slurm").code == 2
    ended = run("resume", "sweep-1-final", "--format", "json")  # as the job does
    assert (ended.code, json.loads(ended.out)["final"]["status"]) == (0, "finished")


class Interrupting(Simulated):
    """Has the driver interrupted after three validations."""

    stops: Stopping

    def wait(self, seconds: float) -> Sequence[Event]:
        self.stops.requested |= len(rows("rlplan.db", ForecastOfFinal)) >= 3
        return super().wait(seconds)


def test_another_final_run_goes_on_from_the_best_for_what_is_left(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stops = Stopping()
    monkeypatch.setattr(Interrupting, "stops", stops, raising=False)
    monkeypatch.setattr(sweeping, "RayExecutor", Interrupting)
    assert launch(LaunchRequest(validations=20, db="rlplan.db"), interrupts=stops).interrupted
    monkeypatch.setattr(sweeping, "RayExecutor", Simulated)
    asked = LaunchRequest(validations=20, from_best=True, db="rlplan.db")
    with pytest.raises(NotFoundError, match="sweep-1-final has kept no best checkpoint in"):
        describe(asked)
    with open_store("rlplan.db", read_only=True) as store, store.read() as session:
        row, trial = newest(session)
        before = {each.optimizer_step: each.score for each in points_of(session, trial.id)}
        step = [each for each in points_of(session, trial.id) if each.score is not None][-2].optimizer_step
    best = Path(row.config["folder"]) / trial.name / "best"  # simulated workers save nothing
    best.mkdir(parents=True)
    checkpoints.save(best, step, {"config": trial.config, "step": step}, checkpoints.PLAIN)

    assert any("at the same learning rate" in note for note in describe(asked).notes)
    ended = launch(replace(asked, learning_rate=1e-7))
    assert (ended.sweep, ended.interrupted) == ("sweep-1-final-2", False)
    with open_store("rlplan.db", read_only=True) as store, store.read() as session:
        own, again = newest(session)
        assert (own.name, again.learning_rate, again.config["learning_rate"]) == ("sweep-1-final-2", 1e-7, 1e-7)
        after = {each.optimizer_step: each.score for each in points_of(session, again.id)}
        assert {at: score for at, score in before.items() if at <= step}.items() <= after.items()
        assert max(after) > step
        assert session.query(Sweep).filter(Sweep.name == "sweep-1-final").one().status is SweepStatus.FINISHED
    best = Path(own.config["folder"]) / again.name / "best"
    checkpoints.save(best, step, {"config": again.config, "step": step}, checkpoints.PLAIN)
    spent = spent_of("rlplan.db")
    with open_store("rlplan.db") as store, store.write() as session:
        half = spent / 2
        session.execute(update(Plan).values(budget_gpu_hours=spent, pilot_gpu_hours=half, final_gpu_hours=half))
    with pytest.raises(BudgetError, match=f"the best checkpoint stays in {best}"):
        describe(asked)
    config = TrialConfig.model_validate(again.config)
    assert checkpoints.resumed(Path(own.config["folder"]) / again.name, config, checkpoints.PLAIN).state["step"] == step


def test_a_final_run_that_is_done_goes_on_with_what_is_left(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store("rlplan.db") as store, store.write() as session:
        session.execute(update(Plan).values(budget_gpu_hours=2 * Plan.budget_gpu_hours))
    monkeypatch.setattr(sweeping, "RayExecutor", Simulated)
    launch(LaunchRequest(validations=20, db="rlplan.db"))
    (done,) = rows("rlplan.db", Final)
    with open_store("rlplan.db", read_only=True) as store, store.read() as session:
        row, trial = newest(session)
    best = Path(row.config["folder"]) / trial.name / "best"
    best.mkdir(parents=True)
    checkpoints.save(best, done.update_steps, {"config": trial.config, "step": done.update_steps}, checkpoints.PLAIN)
    assert "rlplan launch --from-best sweep-1  trains on with the " in run("status").out

    longer = describe(asked := LaunchRequest(validations=20, from_best=True, db="rlplan.db"))
    assert longer.run.update_steps > 1.2 * done.update_steps
    assert not any("learning rate" in note for note in longer.notes)
    assert launch(asked).sweep == "sweep-1-final-2"
    assert spent_of("rlplan.db") <= rows("rlplan.db", Plan)[0].budget_gpu_hours
    assert rows("rlplan.db", ForecastOfFinal)[-1].step == longer.run.update_steps
    assert "--from-best" not in run("status").out  # nothing worth going on for is left


def newest(session: Session) -> tuple[Sweep, Trial]:
    """Return the newest final run, and its trial."""
    row = session.query(Sweep).order_by(Sweep.id.desc()).first()
    assert row is not None
    return row, session.query(Trial).filter(Trial.sweep_id == row.id).one()
