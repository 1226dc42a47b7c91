"""A plan's row is run without pilots, and what runs of one plan share is its budget."""

import pytest

from budgets.errors import InputError, NotFoundError
from planner.store.finals import Final, ForecastOfFinal
from planner.store.schema import Sweep, SweepStatus, Trial
from rlplan.actions.configuring import load_configuration
from rlplan.actions.launching import describe, launch
from rlplan.actions.proposing import make_plan
from rlplan.actions.sweeping import go_on, start
from rlplan.reading.recommend_reading import recommended
from rlplan.requests.running import LaunchRequest, ResumeRequest
from tests.rlplan.stored_rows import rows, spent_of
from tests.rlplan.test_launching import open_plan, sizes
from tests.rlplan.test_sweeping import Stopping, request

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
    assert 0 < rows(database, ForecastOfFinal)[-1].step <= promised.update_steps  # as far as the budget goes
    assert spent_of(database) > 0
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
