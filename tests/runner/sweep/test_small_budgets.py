"""Small budgets, of which a start-up takes much."""

from pathlib import Path

import pytest

from planner.store.schema import SegmentOutcome
from planner.store.standing import standing
from planner.sweeping.actions import Policy
from planner.sweeping.grants import grant
from planner.sweeping.informed import InformedPolicy
from runner.sweep.board import Board
from tests.runner.sweep.simulated_sweeps import SimulatedSweep


@pytest.mark.parametrize("budget", [0.03, 0.06, 0.1, 0.2])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_small_budget_starts_pilots(tmp_path: Path, budget: float, workers: int) -> None:
    given = SimulatedSweep(tmp_path / "small.db", budget=budget, workers=workers, policy="rlplan")
    policy: Policy = InformedPolicy()
    outcome = given.run(policy)
    assert outcome.spent_gpu_hours > 0
    with given.store() as store, store.read() as session:
        segments = [each for ended in standing(session, given.name).segments.values() for each in ended]
    assert any(each.outcome is SegmentOutcome.COMMITTED for each in segments)


def test_a_segment_may_hold_what_makes_a_start_up_worth_while(tmp_path: Path) -> None:
    given = SimulatedSweep(tmp_path / "small.db", budget=0.1, workers=1, policy="rlplan")
    with given.store() as store, store.read() as session:
        board = Board(given.spec, standing(session, given.name))
    for trial in board.trials.values():
        assert grant(trial, trial.most_steps, board.most_of_a_segment(trial)) is not None
