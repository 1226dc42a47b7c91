"""Final runs of a plan's row without pilots, by Slurm, and again from the best checkpoint."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from budgets.errors import BudgetError, InputError, NotFoundError
from planner.store import open_store
from planner.store.finals import Final, ForecastOfFinal
from planner.store.read_model import points_of
from planner.store.schema import Plan, Sweep, SweepStatus, Trial
from rlplan.actions import final_run, sweeping
from rlplan.actions.configuration import load_configuration
from rlplan.actions.final_run import describe, launch
from rlplan.actions.stored_plan import make_plan
from rlplan.actions.sweeping import go_on, start
from rlplan.reading.finals import FinalStanding, final_of_sweep
from rlplan.reading.recommendation import recommended
from rlplan.requests.run import LaunchRequest, ResumeRequest
from runner.ports.executor import Event
from runner.ports.trial import TrialConfig
from runner.training import checkpoints
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import rows, spent_of
from tests.rlplan.test_launching import open_plan, sizes
from tests.rlplan.test_sweeping import Simulated, Stopping, request

pytestmark = pytest.mark.usefixtures("simulated_workers")


def test_a_plans_row_is_run_without_pilots_and_held_to_what_the_plan_expects(database: str) -> None:
    training = request(task=None, budget=None)
    resolved = load_configuration(None, "sum-easy", {"budget.gpu_hours": ("", 0.1), "pilot.fraction": ("", 0.0)})
    plan = make_plan(resolved, database).name
    launched = LaunchRequest(plan, simulation=training.simulation, row=2, validations=8, db=database)
    planned = describe(launched)
    assert rows(database, Sweep) == []  # it is only described
    second = open_plan(database, plan).candidates[1]
    assert planned.promise.end.score == pytest.approx(second.expected_score, abs=0.01)  # a few steps fewer
    interrupts = Stopping()
    assert launch(launched, interrupts=interrupts, began=interrupts.began).interrupted
    with pytest.raises(InputError, match=r"sweep-1-final of plan-1 has not ended \(interrupted\): `rlplan resume"):
        launch(launched)
    assert go_on(ResumeRequest(db=database)).sweep == "sweep-1-final"
    none, final = rows(database, Sweep)
    assert (none.status, final.status, rows(database, Trial)[0].sweep_id) == (SweepStatus.FINISHED,) * 2 + (final.id,)
    (promised,) = rows(database, Final)
    assert sizes(database) == (second.rollouts_per_prompt, second.prompts_per_batch)
    assert promised.promised_score == planned.promise.end.score
    assert rows(database, ForecastOfFinal)[-1].step == final_of(database).update_steps
    assert spent_of(database) > 0.95 * 0.1
    another = LaunchRequest(none.name, allocation="n=16,B=4", switch=True, db=database)
    assert describe(another).run.configuration[:2] == (16, 4)
    with pytest.raises(NotFoundError, match="sweep-1 has no pilots, and so nothing is recommended"):
        recommended(database, none.name)


def test_a_second_sweep_of_a_plan_is_refused_while_the_first_runs(database: str) -> None:
    refused: list[str] = []

    def again(sweep: str) -> None:
        with pytest.raises(InputError) as second:
            start(request(task=None, budget=None, db=database))
        with pytest.raises(InputError) as final:
            launch(plan)
        refused.extend((str(second.value), str(final.value)))

    plan = LaunchRequest("plan-1", simulation=request().simulation, db=database)
    start(request(db=database), began=again)
    assert "sweep-1 of plan-1 is running, and one plan has one budget" in refused[0]
    assert "sweep-1 of plan-1 is running: wait, or `rlplan stop sweep-1` first" in refused[1]
    assert len(rows(database, Sweep)) == 1


@pytest.mark.usefixtures("swept")
def test_a_final_run_is_stored_and_its_job_submitted(run: Run, sbatch: Path, tmp_path: Path) -> None:
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


@pytest.mark.usefixtures("swept")
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


@pytest.mark.usefixtures("swept")
def test_a_final_run_that_is_done_goes_on_with_what_is_left(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "RayExecutor", Simulated)
    with pytest.MonkeyPatch.context() as patch:  # as where more passes over the prompts would do harm
        patch.setattr(final_run, "limit_of", lambda run, config: run.length.steps // 2)
        launch(LaunchRequest(validations=20, db="rlplan.db"))
    done = final_of("rlplan.db")
    assert done.step == done.update_steps
    with open_store("rlplan.db", read_only=True) as store, store.read() as session:
        row, trial = newest(session)
    best = Path(row.config["folder"]) / trial.name / "best"
    best.mkdir(parents=True)
    checkpoints.save(best, done.step, {"config": trial.config, "step": done.step}, checkpoints.PLAIN)
    assert "rlplan launch --from-best sweep-1  trains on with the " in run("status").out

    longer = describe(asked := LaunchRequest(validations=20, from_best=True, db="rlplan.db"))
    assert longer.run.length.steps > 1.2 * done.step
    assert not any("learning rate" in note for note in longer.notes)
    assert launch(asked).sweep == "sweep-1-final-2"
    assert spent_of("rlplan.db") <= rows("rlplan.db", Plan)[0].budget_gpu_hours
    assert rows("rlplan.db", ForecastOfFinal)[-1].step == final_of("rlplan.db").update_steps
    assert "--from-best" not in run("status").out  # nothing worth going on for is left


def final_of(database: str) -> FinalStanding:
    """Return how the newest final run stands."""
    with open_store(database, read_only=True) as store:
        standing = final_of_sweep(store, "sweep-1")
    assert standing is not None
    return standing


def newest(session: Session) -> tuple[Sweep, Trial]:
    """Return the newest final run, and its trial."""
    row = session.query(Sweep).order_by(Sweep.id.desc()).first()
    assert row is not None
    return row, session.query(Trial).filter(Trial.sweep_id == row.id).one()
