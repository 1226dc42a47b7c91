from pathlib import Path

import numpy as np
import pytest

from planner.store.read_model import sweep_snapshot
from planner.view import PARTS
from runner.sweep.plan_rows import plan_forecast
from runner.sweep.state import SweepState
from tests.runner.sweep.simulated_sweeps import SimulatedSweep


def test_a_sweep_is_told_what_its_plan_expected_of_every_cell(tmp_path: Path) -> None:
    given = SimulatedSweep(tmp_path / "told.db")
    with given.store() as store, store.read() as session:
        view = SweepState(given.spec, sweep_snapshot(session, given.name)).view(1)
    assert view.plan_prior is not None
    base = given.plan.workload["mean_pass_rate"]
    assert set(view.plan_prior.gains) >= {trial.configuration for trial in view.trials.values()} | set(view.open_cells)
    for candidate in given.plan.candidates:
        gains = np.array(view.plan_prior.gains[candidate.rollouts_per_prompt, candidate.prompts_per_batch, ()])
        assert gains.shape == (len(view.plan_prior.weights), len(PARTS))
        expected = base + (1 - base) * float(np.dot(view.plan_prior.weights, gains[:, -1]))
        assert expected == pytest.approx(candidate.expected_score, abs=0.01)  # a start-up less or more
    given.plan.workload = {"model": "tiny-sums"}  # which says too little
    assert plan_forecast(given.plan, given.spec) is None
