"""Pilots on other GPUs than the final run: what they cost, and where they are compared."""

from itertools import accumulate

import pytest
from sqlalchemy import select

from planner.policy.policies import open_policy
from planner.recommend.facts import facts_of
from planner.store.schema import Fit, Plan, Point, Recommendation, Segment, Trial
from runner.ports.trial import SimulationChoice
from runner.sweep.conclusions import answer_of, planned_of, stored_board
from runner.sweep.final import final_price
from runner.sweep.plan_rows import nodes_of
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.runner.sweep.test_driver import COSTS

TWO_OF_EIGHT = {
    "hardware.gpus": ("--gpus", 16),
    "hardware.gpus_per_trial": ("--gpus-per-trial", 8),
    "pilot.gpus": ("--pilot-gpus", 2),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> SimulatedSweep:
    path = tmp_path_factory.mktemp("layouts") / "rlplan.db"
    given = SimulatedSweep(
        path, budget=1.0, choice=SimulationChoice(costs=COSTS), policy="asha", workers=8, flags=TWO_OF_EIGHT
    )
    given.run(open_policy("asha"), cpus_per_worker=2.0)
    return given


def test_a_pilot_is_charged_with_its_own_gpu_hours_and_compared_by_those_of_the_final_run(
    ended: SimulatedSweep,
) -> None:
    with ended.store() as store, store.read() as session:
        board = stored_board(session, ended.name)
        points = session.scalars(select(Point)).all()
        trials = {each.id: each for each in session.scalars(select(Trial))}
        segments = session.scalars(select(Segment)).all()
    assert points
    assert sum(each.charged_gpu_hours or 0.0 for each in segments) <= ended.spec.pilot_gpu_hours
    moments = sorted([(each.started_at, 1) for each in segments] + [(each.ended_at, -1) for each in segments])
    assert max(accumulate(change for _, change in moments)) == ended.plan.hardware["pilots_at_once"] == 8
    assert ended.spec.resources.slots == ended.spec.training.machine.gpus == 2
    candidates = {(each.rollouts_per_prompt, each.prompts_per_batch): each for each in ended.plan.candidates}
    for point in points:
        trial = trials[point.trial_id]
        candidate = candidates[trial.rollouts_per_prompt, trial.prompts_per_batch]
        assert candidate.pilot_gpu_hours_per_step < candidate.gpu_hours_per_step
        factor = candidate.gpu_hours_per_step / candidate.pilot_gpu_hours_per_step
        assert point.gpu_hours == pytest.approx(point.seconds * 2 / 3600)
        if point.gpu_hours:
            assert point.compared_gpu_hours == pytest.approx(factor * point.gpu_hours)
    for trial in board.trials.values():
        stored = {each.optimizer_step: each for each in points if each.trial_id == trial.trial}
        for seen in trial.scores:
            own = stored[seen.step]
            assert seen.gpu_hours == (own.compared_gpu_hours or own.gpu_hours)
        assert trial.gpu_hours_spent == pytest.approx(trials[trial.trial].gpu_hours_spent)


def test_what_is_believed_while_it_runs_rests_on_the_compared_gpu_hours(ended: SimulatedSweep) -> None:
    with ended.store() as store, store.read() as session:
        fits = session.scalars(select(Fit)).all()
        points = session.scalars(select(Point)).all()
    assert fits
    for fit in fits:
        assert fit.upto_gpu_hours in {each.compared_gpu_hours for each in points if each.trial_id == fit.trial_id}


def test_the_final_run_is_as_long_as_its_own_gpus_make_it(ended: SimulatedSweep) -> None:
    with ended.store() as store, store.read() as session:
        row = session.scalars(select(Recommendation)).one()
        board = stored_board(session, ended.name)
    chosen = answer_of(board).chosen.configuration
    facts = facts_of(board.view(0), planned_of(board))
    price = final_price(board, chosen, facts[chosen].gpu_hours_per_step, ())
    assert (row.gpu_hours_to_target - price.start_up) / row.update_steps == pytest.approx(price.update, rel=1e-6)
    assert price.update == facts[chosen].gpu_hours_per_step
    seen = {**{each.configuration: each for each in board.trials.values()}, **board.view(0).open_cells}
    for configuration, known in facts.items():
        assert known.gpu_hours_per_step == pytest.approx(seen[configuration].compared_per_step)
        assert known.gpu_hours_per_step > 1.1 * seen[configuration].gpu_hours_per_step


@pytest.mark.parametrize(
    ("gpu", "gpus", "per_node", "nodes"),
    [
        ("h100", 4, 8, 1),
        ("h100", 8, None, 1),
        ("h100", 64, 8, 8),
        ("h100", 12, 8, 2),
        ("h100", 8, 4, 2),
        ("cpu", 16, 8, 1),
    ],
)
def test_a_layout_is_on_the_fewest_nodes_in_equal_parts(gpu: str, gpus: int, per_node: int | None, nodes: int) -> None:
    assert nodes_of(Plan(hardware={"gpu": gpu, "gpus_per_node": per_node}), gpus) == nodes
