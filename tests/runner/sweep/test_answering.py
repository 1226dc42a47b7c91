"""The answer of a stored sweep, and what a sweep stores of it when it ends."""

from dataclasses import asdict
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select

from budgets.errors import NotFoundError
from planner.belief.pool import Pool, joint_of
from planner.policy.chances import beliefs_of
from planner.policy.policies import open_policy
from planner.replay.play import open_chooser, play
from planner.replay.recorded import RecordedRun
from planner.store.schema import Fit, Ranking, Recommendation, SweepStatus
from planner.view import Configuration, TrialState
from runner.ports.trial import SimulationChoice
from runner.sweep.conclusions import answer_of, planned_of, stored_board
from tests.runner.sweep.simulated_sweeps import SimulatedSweep
from tests.runner.sweep.test_driver import COSTS, failing, sweep
from tests.runner.sweep.test_played_as_driven import InOrder


def test_what_fails_before_its_first_update_has_taught_the_base_score_to_who_asks_later(tmp_path: Path) -> None:
    given = sweep(tmp_path, choice=failing(most_rollouts=64), policy="asha")
    given.run(open_policy("asha"))
    row, _ = stored(given)
    with given.store() as store, store.read() as session:
        board = stored_board(session, given.name)
    assert any(trial.state is TrialState.FAILED and trial.scores for trial in board.trials.values())
    assert answer_of(board).chosen.expected_score == row.expected_score


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> SimulatedSweep:
    given = sweep(tmp_path_factory.mktemp("ended"), policy="asha")
    given.run(open_policy("asha"))
    return given


def stored(given: SimulatedSweep) -> tuple[Recommendation, list[Ranking]]:
    with given.store() as store, store.read() as session:
        return session.scalars(select(Recommendation)).one(), list(
            session.scalars(select(Ranking).order_by(Ranking.rank))
        )


def test_what_is_stored_in_the_end_is_what_is_answered_afterwards(ended: SimulatedSweep) -> None:
    row, ranking = stored(ended)
    with ended.store() as store, store.read() as session:
        board = stored_board(session, ended.name)
    again = answer_of(board)
    chosen = again.chosen
    assert (row.rollouts_per_prompt, row.prompts_per_batch) == chosen.configuration[:2]
    assert row.expected_score == pytest.approx(chosen.expected_score)
    assert row.probability_best == pytest.approx(chosen.probability_best)
    assert row.update_steps == chosen.update_steps
    # Who asks for the same final run by its GPU-hours gets the same.
    assert answer_of(board, again.target_gpu_hours).chosen == chosen
    # This sweep decides how much its pilots take: the final run has the rest of the whole budget.
    spent = ended.spec.pilot_gpu_hours + ended.spec.target_gpu_hours - row.gpu_hours_to_target
    assert 0 < spent <= ended.spec.pilot_gpu_hours + row.gpu_hours_to_target / row.update_steps
    assert [(each.rollouts_per_prompt, each.prompts_per_batch) for each in ranking][: len(again.ranked)] == [
        each.configuration[:2] for each in again.ranked
    ]
    assert ranking[0].rank == 1
    assert len(ranking) == len(planned_of(board))


def test_a_price_does_not_depend_on_the_order_in_which_it_was_learnt(tmp_path: Path) -> None:
    """Measured in a world that is dearer than the plan, the live driver's prices are those that the rows tell."""
    dearer = COSTS.model_copy(update={"seconds_per_update": 0.08, "seconds_per_rollout": 0.004, "spread": 0.4})
    given = sweep(tmp_path, choice=SimulationChoice(costs=dearer), policy="asha")
    given.run(open_policy("asha"))
    with given.store() as store, store.read() as session:
        again = answer_of(stored_board(session, given.name))
    row, ranking = stored(given)
    assert row.details["recommendation"]["gpu_hours"] == pytest.approx(again.chosen.gpu_hours)
    assert {each.configuration: each.update_steps for each in again.ranked} == {
        Configuration(each.rollouts_per_prompt, each.prompts_per_batch, each.axes): each.update_steps
        for each in ranking
        if each.expected_score is not None
    }


def test_an_interrupted_sweep_keeps_its_answer_so_far_until_it_goes_on(tmp_path: Path) -> None:
    given = sweep(tmp_path, policy="asha")
    turns = count()
    with given.store() as store:
        late = given.driver(given.executor(), open_policy("asha"), store, interrupted=lambda: next(turns) > 60)
        assert late.run().status is SweepStatus.INTERRUPTED
    before, _ = stored(given)
    assert before.details["so_far"]
    given.run(open_policy("asha"))
    after, _ = stored(given)  # the one so far has given way
    assert "so_far" not in after.details
    assert after.id > before.id
    assert after.made_at > before.made_at


def test_a_stored_fit_is_what_one_model_says_of_its_run(ended: SimulatedSweep) -> None:
    with ended.store() as store, store.read() as session:
        board = stored_board(session, ended.name)
        last = max(session.scalars(select(Fit)), key=lambda fit: (fit.made_at, fit.id))
        before = board.view(0)
    (believed,) = beliefs_of(joint_of(before), [before.trials[last.trial_id]]).values()
    assert last.model == "sigmoids, all curves together"
    assert set(last.parameters) == {"R0", "A", "B", "C_mid"}
    for name, told in believed.parameters.items():
        assert last.parameters[name] == pytest.approx(asdict(told)), name
    assert (last.predicted_mean, last.predicted_low, last.predicted_high) == pytest.approx(
        (believed.score.median, believed.score.low, believed.score.high)
    )
    assert last.verdict == believed.verdict


def test_another_target_asks_for_another_run_and_changes_no_belief(ended: SimulatedSweep) -> None:
    with ended.store() as store, store.read() as session:
        board = stored_board(session, ended.name)
    one, four = (answer_of(board, factor * ended.spec.target_gpu_hours) for factor in (1, 4))
    then, now = one.budgets[4].choice, four.chosen
    assert then is not None
    assert then.update_steps == now.update_steps
    assert then.expected_score == pytest.approx(now.expected_score, abs=1e-6)


SIX_PILOTED = {
    "grid.fewest_rollouts_per_prompt": ("", 4),
    "grid.most_rollouts_per_prompt": ("", 16),
    "grid.fewest_prompts_per_batch": ("", 8),
    "grid.most_prompts_per_batch": ("", 16),
    "grid.fewest_rollouts_per_step": ("", 32),
    "proposal.baseline": ("", "n=8,B=16"),
    "pilot.cells": ("", "all"),
    "pilot.fraction": ("", 0.5),
}


def test_a_replay_of_a_sweeps_rows_chooses_what_the_sweep_recommends(tmp_path: Path) -> None:
    given = SimulatedSweep(tmp_path / "rlplan.db", choice=SimulationChoice(seed=5), flags=SIX_PILOTED)
    given.run(open_policy("full"))
    with given.store() as store, store.read() as session:
        board = stored_board(session, given.name)
    view, target = board.view(0), given.spec.target_gpu_hours
    runs = []
    for each in view.trials.values():
        columns = zip(*((seen.gpu_hours, seen.score, seen.standard_error) for seen in each.scores), strict=True)
        runs.append(RecordedRun(each.name, each.configuration, each.seed, *map(np.array, columns)))
    recorded = InOrder(tuple(runs))
    played = play(
        recorded,
        open_policy("full"),
        budget=2 * recorded.full_cost(target),
        target=target,
        seed=view.seed,
        chooser=open_chooser("rlplan", Pool()),
        trace=False,
        plan_prior=view.plan_prior,
    )
    assert len(recorded.configurations) == len(planned_of(board)) == 6
    assert played.chosen == answer_of(board, target).chosen.configuration


def test_what_fails_is_ranked_last_without_a_score(tmp_path: Path) -> None:
    given = sweep(tmp_path, choice=failing(most_rollouts=200))
    given.run(open_policy("full"))
    row, ranking = stored(given)
    failed = [each for each in ranking if each.status == TrialState.FAILED]
    assert failed
    assert all(each.expected_score is None and each.probability_best is None for each in failed)
    assert [each.rank for each in failed] == list(range(len(ranking) - len(failed) + 1, len(ranking) + 1))
    sizes = {(each.rollouts_per_prompt, each.prompts_per_batch) for each in failed}
    assert (row.rollouts_per_prompt, row.prompts_per_batch) not in sizes
    assert any(each["kind"] == "failed" for each in row.details["warnings"])


def test_a_sweep_that_has_not_begun_has_no_answer(tmp_path: Path) -> None:
    given = sweep(tmp_path)
    with given.store() as store, store.read() as session:
        board = stored_board(session, given.name)
    with pytest.raises(NotFoundError, match="has a score after its first update"):
        answer_of(board)
