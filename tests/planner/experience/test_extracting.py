import numpy as np
import pytest

from budgets.errors import InputError
from planner.experience.extracting import experience_of, experience_of_runs
from planner.pooling.features import MIDDLE
from planner.view import Configuration, ScorePoint
from tests.planner.experience.makers import learnt
from tests.planner.pooling.sweeps import TARGET, smooth
from tests.planner.replaying.tables import LENGTH, grid


@pytest.mark.parametrize("seed", range(2))
def test_slopes_of_the_midpoint_are_those_of_the_truth(seed: int) -> None:
    found = learnt(seed)
    truth = {cell: np.log(curve.middle) for cell, curve in smooth(seed).items()}
    at = np.log2(np.array(list(truth)))
    places = 2 * (at - at.min(axis=0)) / np.ptp(at, axis=0) - 1
    design = np.column_stack([np.ones(len(at)), places, places[:, :1] * places[:, 1:]])
    slopes = np.linalg.lstsq(design, np.array(list(truth.values())), rcond=None)[0][1:3]
    for name, slope in zip(("n", "B"), slopes, strict=True):
        (place,) = [number for number, term in enumerate(found.terms) if term == (MIDDLE, (name,))]
        assert found.mean[place] == pytest.approx(slope, abs=0.25)


def test_a_table_is_read_at_the_compute_that_most_runs_reach() -> None:
    found = experience_of_runs("grid", grid(), {"task": "sums"})
    assert found.target_gpu_hours == pytest.approx(LENGTH)
    assert (found.configurations, found.curves, dict(found.about)) == (12, 24, {"task": "sums"})


def test_too_few_configurations_teach_nothing() -> None:
    rising = tuple(ScorePoint(step, float(step), 0.1 * step, None) for step in range(8))
    only_start = (ScorePoint(0, 0.0, 0.1, None),)
    few = [(Configuration(8, 16), rising), (Configuration(16, 16), rising), (Configuration(32, 16), only_start)]
    with pytest.raises(InputError, match="'short' has curves of 2 configurations: at least 3"):
        experience_of("short", few, TARGET, {})
