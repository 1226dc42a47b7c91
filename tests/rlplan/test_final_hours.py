"""What the final run may take: the hours left, those of other sweeps, and money that is added."""

from pathlib import Path
from typing import Any

import pytest

from budgets.errors import NotFoundError
from planner.store.finals import Final
from planner.store.schema import Plan, Point, Segment, Sweep, SweepStatus
from rlplan.actions.configuration import load_configuration
from rlplan.actions.final_run import launch
from rlplan.actions.stored_plan import make_plan
from rlplan.actions.sweeping import go_on, start
from rlplan.commands import status
from rlplan.commands.status import Standing
from rlplan.exits import ExitCode
from rlplan.requests.results import StatusRequest
from rlplan.requests.run import LaunchRequest, ResumeRequest
from runner.ports.executor import Work
from runner.ports.trial import Costs, SimulationChoice
from tests.golden.databases import make_database
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import rows, spent_of
from tests.rlplan.test_launching import open_plan
from tests.rlplan.test_sweeping import Simulated, Stopping, request, stored

pytestmark = pytest.mark.usefixtures("simulated_workers")
BUDGET = 0.3
START_UP_SECONDS = 10.0


def world(database: str, plan: str, factor: float) -> dict[str, Any]:
    """Return a world in which an update of the plan's first row takes so many times its price."""
    row = open_plan(database, plan).candidates[0]
    rollouts = row.rollouts_per_prompt * row.prompts_per_batch
    costs = Costs(
        seconds_per_update=0.0,
        seconds_per_rollout=factor * 3600 * row.gpu_hours_per_step / rollouts,
        seconds_per_answer=0.0,
        start_up_seconds=START_UP_SECONDS,
    )
    return SimulationChoice(costs=costs).model_dump(mode="json")


@pytest.mark.parametrize(("factor", "stopped"), [(0.7, True), (2.0, False)])
def test_its_length_follows_its_own_price(database: str, factor: float, stopped: bool) -> None:
    # The first row, and not the champion's: that one stops before more passes over the prompts do harm.
    given = {"budget.gpu_hours": ("", BUDGET), "pilot.fraction": ("", 0.0), "proposal.explore": ("", True)}
    resolved = load_configuration(None, "sum-easy", given)
    plan = make_plan(resolved, database).name
    request = LaunchRequest(plan, simulation=world(database, plan, factor), db=database)
    if stopped:
        interrupts = Stopping()
        assert launch(request, interrupts=interrupts, began=interrupts.began).interrupted
        go_on(ResumeRequest(db=database))
    else:
        launch(request)
    (promised,), final = rows(database, Final), rows(database, Sweep)[-1]
    assert final.status is SweepStatus.FINISHED
    assert 0.95 * BUDGET <= spent_of(database) <= BUDGET
    scored = [point.optimizer_step for point in rows(database, Point) if point.score is not None]
    last = max(segment.to_step for segment in rows(database, Segment))
    assert max(scored) == last == pytest.approx(promised.update_steps / factor, rel=0.06)
    assert 28 <= len(set(scored)) <= 60  # of the 40 that were asked for
    standing = status.answer(StatusRequest(db=database))
    assert isinstance(standing, Standing)
    assert standing.final is not None
    assert standing.final.update_steps == standing.final.step == last
    assert standing.final.end is not None
    assert standing.final.end["share"] == 1.0


@pytest.mark.parametrize("stops_on", ["signal", "nothing"])
def test_a_trainer_that_trains_on_is_told_how_far_and_no_segment_of_it_is_ended_early(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops_on: str
) -> None:
    given = {"budget.gpu_hours": ("", BUDGET), "pilot.fraction": ("", 0.0), "proposal.explore": ("", True)}
    plan = make_plan(load_configuration(None, "sum-easy", given), database).name
    (tmp_path / "own.toml").write_text(f'name = "standin"\n[options]\ngated = false\nstops_on = "{stops_on}"\n')
    works: list[Work] = []
    take = Simulated.assign

    def assign(own: Simulated, work: Work) -> None:
        works.append(work)
        take(own, work)

    monkeypatch.setattr(Simulated, "assign", assign)
    twice = world(database, plan, 2.0)  # what is reserved of a segment is not enough for it
    launch(LaunchRequest(plan, simulation=twice, trainer=str(tmp_path / "own.toml"), db=database))
    assert 0.95 * BUDGET <= spent_of(database) <= BUDGET
    *others, last = works
    assert all(work.reach > work.to_step for work in others)
    assert last.reach == last.to_step == max(segment.to_step for segment in rows(database, Segment))
    (promised,) = rows(database, Final)
    assert works[0].reach == promised.update_steps * (2 if stops_on == "signal" else 1)
    reached = {segment.id: segment.to_step for segment in rows(database, Segment)}
    assert all(reached[work.segment] == work.to_step for work in works)


@pytest.mark.parametrize("explore", [True, False])
def test_a_sweep_that_has_ended_goes_on_with_more_money_and_spends_no_more(database: str, explore: bool) -> None:
    changes: dict[str, Any] = {"explore": explore, "policy": None}
    budget = 0.2
    assert not start(request(budget=budget, db=database, **changes)).interrupted
    before, plan = stored(database), rows(database, Plan)[0]
    with pytest.raises(NotFoundError, match="has ended"):
        go_on(ResumeRequest(db=database))

    def spent() -> float:
        return sum(segment.charged_gpu_hours or 0.0 for segment in rows(database, Segment))

    paid = spent()
    finished = go_on(ResumeRequest(db=database, add=0.3))
    after, larger = stored(database), rows(database, Plan)[0]
    assert after.status is SweepStatus.FINISHED
    assert after.config["pilot_gpu_hours"] == pytest.approx(before.config["pilot_gpu_hours"] + 0.3)
    assert (larger.budget_gpu_hours, larger.pilot_gpu_hours) == pytest.approx(
        (plan.budget_gpu_hours + 0.3, plan.pilot_gpu_hours + 0.3)
    )
    assert finished.spent_gpu_hours <= after.config["pilot_gpu_hours"] * (1 + 1e-9)
    if explore:  # a champion's challengers take what a look is worth
        assert spent() > paid
    else:
        total = after.config["target_gpu_hours"]
        assert after.config["champion"]["challenger_share"] * total == pytest.approx(0.05 * budget + 0.3)


def test_a_sweep_whose_final_run_has_begun_takes_no_more_money(run: Run, tmp_path: Path) -> None:
    make_database(tmp_path, "final")
    refused = run("resume", "sweep-1", "--add", "1")
    assert (refused.code, "the final run of sweep-1 has begun" in refused.err) == (ExitCode.BAD_INPUT, True)
