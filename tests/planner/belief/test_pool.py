from dataclasses import replace

import numpy as np
import pytest

from planner.belief.draws import JointDraws
from planner.belief.pool import MOST_CURVES, MOST_RUNS, Pool, joint_of
from planner.view import ScorePoint, TrialState, View, has_curve
from tests.planner.belief.sweeps import along, configuration, open_cell, smooth, sweep
from tests.planner.policy.views import trial, view

TRUTH = smooth(2)
CELLS = ((8, 32), (8, 64), (16, 64))
SOME = {cell: TRUTH[cell] for cell in CELLS}


def same(first: JointDraws, second: JointDraws) -> bool:
    return first.configurations == second.configurations and bool((first.at(1.0) == second.at(1.0)).all())


def history() -> list[View]:
    """Return views of one sweep as it goes on, the last of another one with the same trials."""
    views = [sweep(SOME, dict.fromkeys(CELLS[:count], to)) for count, to in ((1, 10), (2, 10), (2, 20), (3, 30))]
    views.append(replace(views[-1], open_cells={configuration((4, 16)): open_cell((4, 16))}))
    views.append(replace(views[-1], target_gpu_hours=150.0))
    views.append(replace(views[0], seed=5))
    return [*views, sweep({cell: smooth(3)[cell] for cell in CELLS}, {CELLS[0]: 10}, seed=5)]


def test_what_a_pool_keeps_never_changes_its_answer() -> None:
    used = Pool()
    for seen in [*history(), *reversed(history())]:
        assert same(used.joint_draws(seen, 50), Pool().joint_draws(seen, 50))


def test_an_unchanged_view_is_not_fitted_again() -> None:
    seen, pool = history()[2], Pool()
    assert pool.joint_draws(seen, 20) is pool.joint_draws(replace(seen, gpu_hours_left=1.0, free_workers=0), 20)


@pytest.mark.parametrize(("cells", "each"), [(20, MOST_RUNS), (40, 3), (61, 1), (150, 1)])
def test_of_many_configurations_fewer_runs_are_fitted_but_never_none(cells: int, each: int) -> None:
    truth = TRUTH[16, 64]
    runs = [
        along(MOST_RUNS * cell + seed, (cell + 2, 64), truth, 6 + 2 * seed)
        for cell in range(cells)
        for seed in range(MOST_RUNS)
    ]
    fitted = joint_of(view(runs), 5).runs
    assert (np.bincount(fitted.of) == each).all()
    assert {number % MOST_RUNS for number in fitted.trials} == set(range(MOST_RUNS - each, MOST_RUNS))
    assert len(fitted.of) <= max(MOST_CURVES, cells)


def test_open_cells_are_in_it_once_after_those_with_trials() -> None:
    shown = sweep(SOME, {CELLS[0]: 20})
    opened = {configuration(cell): open_cell(cell) for cell in ((4, 16), CELLS[1])}
    worlds = joint_of(replace(shown, open_cells=opened), 20)
    assert worlds.configurations == (*(configuration(cell) for cell in CELLS), configuration((4, 16)))


@pytest.mark.parametrize("state", list(TrialState))
def test_a_curve_counts_whatever_became_of_its_trial(state: TrialState) -> None:
    run = replace(along(1, (16, 64), TRUTH[16, 64], 20), state=state)
    worlds = joint_of(view([run, trial(2, cell=(8, 32))]), 20)
    assert worlds.runs.trials == (1,)


def test_a_score_before_the_first_update_is_no_curve() -> None:
    start = trial(1, cell=(16, 64), seen=(ScorePoint(0, 0.0, 0.2, 0.01),))
    assert not has_curve(start)
    assert not has_curve(trial(2))
    assert has_curve(along(3, (16, 64), TRUTH[16, 64], 2))
    worlds = joint_of(view([start, along(3, (8, 64), TRUTH[8, 64], 10)]), 20)
    assert worlds.runs.trials == (3,)
    assert np.isfinite(worlds.at(1.0)).all()
