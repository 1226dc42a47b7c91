import dataclasses

import numpy as np
import pytest

from planner.view import Configuration
from runner.simulation.drawn import INTERESTING, DrawnCell, DrawnWorld, Setting

CELLS = tuple(DrawnCell(n, B, 0.01 * n * B / 64, 0.05, 10) for n in (2, 8, 32) for B in (4, 16))
SETTING = Setting(CELLS, ("easy", "hard"), answers=500, longest_pilot=20, longest_final=100, studied=False)


def test_equal_arguments_make_equal_worlds() -> None:
    first, again, other = (DrawnWorld(SETTING, seed, 3) for seed in (1, 1, 2))
    assert first.truth(50) == again.truth(50) != other.truth(50)
    for one, two in zip(first.recorded.runs, again.recorded.runs, strict=True):
        assert np.array_equal(one.scores, two.scores)


def test_there_is_a_run_of_every_cell_from_its_start_up_to_the_longest_final() -> None:
    recorded = DrawnWorld(SETTING, 0, 0).recorded
    assert recorded.configurations == tuple(Configuration(n, B) for n in (2, 8, 32) for B in (4, 16))
    for run, cell in zip(recorded.runs, CELLS, strict=True):
        assert run.gpu_hours[0] == 0
        assert run.gpu_hours[1] - run.gpu_hours[0] == pytest.approx(10 * cell.gpu_hours_per_step)
        assert run.gpu_hours[-1] == 100 - 0.05  # a final run has a start-up too
        assert run.gpu_hours[-2] <= 20
        assert run.standard_errors is not None


def test_scores_scatter_about_the_curve_as_their_errors_say() -> None:
    calm = dataclasses.replace(SETTING, pathologies=SETTING.pathologies.model_copy(update={"collapse": 0.0}))
    off = []
    for number in range(8):
        world = DrawnWorld(calm, 0, number)
        for run in world.recorded.runs:
            assert run.standard_errors is not None
            score = world.truth(float(run.gpu_hours[-1]) + 0.05)[run.configuration]
            off.append((run.scores[-1] - score) / np.hypot(run.standard_errors[-1], 0.01))
    assert abs(np.mean(off)) < 0.6
    assert 0.5 < np.std(off) < 1.7


def test_worlds_take_their_difficulties_in_turn() -> None:
    starts = [min(DrawnWorld(SETTING, 0, number).truth(0.0).values()) for number in range(6)]
    assert all(easy > 0.25 > hard for easy, hard in zip(starts[::2], starts[1::2], strict=True))


def test_outside_of_the_studies_the_final_run_lies_where_curves_rise() -> None:
    easy = dataclasses.replace(SETTING, difficulties=("easy",))
    gained = []
    for number in range(12):
        world = DrawnWorld(easy, 0, number)
        start, end, beyond = (max(world.truth(hours).values()) for hours in (0.0, 100.0, 1e6))
        gained.append((end - start) / (beyond - start))
    assert 0.2 < np.mean(gained) < 0.95


def test_within_the_studies_rollouts_are_those_of_the_surface() -> None:
    small, large = (DrawnCell(n, 64, n / 16, 0.0, 10) for n in (16, 256))  # alike in rollouts per GPU-hour
    studied = Setting((small, large), ("easy",), 1000, longest_pilot=20, longest_final=1000, studied=True)

    def lead_of_small_groups(rollouts: float) -> float:
        truths = (DrawnWorld(studied, 0, number).truth(rollouts / (16 * 64)) for number in range(20))
        return float(np.mean([truth[small.configuration] - truth[large.configuration] for truth in truths]))

    early, late = (lead_of_small_groups(rollouts) for rollouts in INTERESTING)
    assert early > 0 > late  # the published law: the best n grows with compute
