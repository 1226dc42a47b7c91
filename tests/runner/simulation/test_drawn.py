import dataclasses
import math

import numpy as np
import pytest

from planner.view import Configuration
from runner.ports.trial import Pathologies
from runner.simulation.drawn import DrawnCell, DrawnWorld, Setting, curve_through
from runner.simulation.surfaces import Shape

EASY, HARD = Shape(0.1, 0.9, 2000.0, 1.0), Shape(0.1, 0.3, 500.0, 1.5)


def cell_of(n: int, B: int, most_steps: int = 10**6) -> DrawnCell:
    """Return a cell with two draws."""
    rollouts = n * B * most_steps
    scores = np.array([[curve.score(rollouts / part) for curve in (EASY, HARD)] for part in (16, 4, 1)])
    return DrawnCell(n, B, 0.01 * n * B / 64, 0.05, 10, most_steps, 0.1, scores)


CELLS = tuple(cell_of(n, B) for n in (2, 8, 32) for B in (4, 16))
SETTING = Setting(CELLS, np.array([0.75, 0.25]), np.arange(2), answers=500, longest_pilot=20, longest_final=100)


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


def test_worlds_are_drawn_as_often_as_the_prior_counts_them() -> None:
    calm = dataclasses.replace(SETTING, pathologies=Pathologies())
    ends = [max(DrawnWorld(calm, 5, number).truth(1e6).values()) for number in range(20)]
    assert sum(end > 0.6 for end in ends) in (14, 15, 16)


def test_a_run_makes_nothing_of_more_passes_than_are_expected_to_do_good() -> None:
    short = dataclasses.replace(SETTING, cells=[cell_of(*cell.configuration[:2], 50) for cell in CELLS])
    world = DrawnWorld(short, 0, 0)
    assert world.truth(100) == world.truth(1000)


@pytest.mark.parametrize("curve", [EASY, HARD, Shape(0.45, 0.7, 1e6, 0.75)])
def test_a_curve_is_read_through_three_scores(curve: Shape) -> None:
    rollouts = 3 * curve.middle
    found = curve_through(curve.base, rollouts, [curve.score(rollouts / part) for part in (16, 4, 1)])
    assert found.asymptote == pytest.approx(curve.asymptote, rel=0.01)
    assert found.middle == pytest.approx(curve.middle, rel=0.05)


@pytest.mark.parametrize(
    "scores", [(0.4, 0.4, 0.4), (0.3, 0.2, 0.1), (0.4, 0.7, 0.6), (0.41, 0.42, 0.9), (0.9, 0.91, 0.92)]
)
def test_no_scores_make_a_curve_that_is_none(scores: tuple[float, ...]) -> None:
    found = curve_through(0.4, 1e5, scores)
    assert 0.4 <= found.asymptote <= 1
    assert all(math.isfinite(each) and each > 0 for each in (found.middle, found.exponent))
    assert found.score(1e5) == pytest.approx(max(0.4, scores[-1]), abs=0.02) or scores[-1] < scores[1]
