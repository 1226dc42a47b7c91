"""Policies played to the end of their money over courses whose truth is known."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pytest

from bench.synthetic import courses
from planner.belief.pool import Pool
from planner.metrics import EQUIVALENCE_MARGIN
from planner.policy.actions import Propose, Prune
from planner.policy.policies import open_policy
from planner.replay.game import PilotTerms
from planner.replay.play import Played, open_chooser, play
from planner.replay.recorded import Recorded, RecordedRun
from planner.view import Cell, Configuration
from tests.planner.belief.sweeps import smooth
from tests.planner.policy.views import CELLS
from tests.planner.replay.tables import Watched

PLANNED, BUDGET, TARGET, PER_STEP = 12, 122.0, 100.0, 0.5  # that many pilots of 20 steps cost so much
ANSWERS = 500  # behind each score

Course = Callable[[float], float]  # the score over the share of the target


def unrelated(seed: int, cells: Sequence[Cell]) -> dict[Cell, Course]:
    """Draw a course of any rising shape for each cell, with no relation between them."""
    rng = np.random.default_rng(seed)
    kinds = (courses.sigmoid, courses.saturating, courses.power_law, courses.shoulder, courses.late_start)

    def course() -> Course:
        mean = kinds[rng.integers(len(kinds))](rng).mean
        return lambda u: float(mean(np.array([u]))[0])

    return {cell: course() for cell in cells}


@cache
def played(policy: str, seed: int, budget: float = BUDGET, related: bool = False) -> tuple[Played, Watched]:
    """Play over twelve cells with a planned pilot, and as many more that are open."""
    rng = np.random.default_rng(seed)
    cells = [CELLS[i] for i in rng.permutation(len(CELLS))]
    x = PER_STEP * np.arange(201)
    runs = []
    truth = {cell: curve.at for cell, curve in smooth(seed, cells).items()} if related else unrelated(seed, cells)
    for cell, course in truth.items():
        p = np.clip([course(at / TARGET) for at in x], 0, 1)
        error = np.sqrt(np.maximum(p * (1 - p), 0.25 / ANSWERS) / ANSWERS)
        runs.append(RecordedRun(str(cell), Configuration(*cell), 0, x, rng.binomial(ANSWERS, p) / ANSWERS, error))
    pilots = {
        Configuration(*cell): PilotTerms(PER_STEP, 0.05, 20 if place < PLANNED else 5, 5, 200, planned=place < PLANNED)
        for place, cell in enumerate(cells)
    }
    pool = Pool()
    watched, chooser = Watched(open_policy(policy, pool=pool)), open_chooser("rlplan", pool)
    result = play(
        Recorded(tuple(runs)),
        watched,
        budget=budget,
        target=TARGET,
        seed=seed,
        workers=2,
        chooser=chooser,
        pilots=pilots,
        trace=False,
    )
    return result, watched


def test_with_money_for_its_plan_every_trial_has_a_curve_and_the_full_grid_trains_exactly_its_pilots() -> None:
    for policy in ("full", "median", "asha"):
        last, _ = played(policy, 2, budget=200.0)[1].decisions[-1]
        assert all(trial.scores for trial in last.trials.values())
        assert policy != "full" or {trial.step for trial in last.trials.values()} == {20}


def test_a_driver_that_starts_again_decides_the_same() -> None:
    decisions = played("rlplan", 5, related=True)[1].decisions
    assert any(isinstance(action, Propose) for _, actions in decisions for action in actions)
    for seen, actions in decisions[::7]:
        assert list(open_policy("rlplan").decide(seen)) == list(actions)


def test_pruned_trials_were_worse_than_the_chosen_one() -> None:
    better = []
    for seed in range(9):
        result, watched = played("rlplan", seed)
        trials, chosen = watched.decisions[-1][0].trials, _truth(seed, result.chosen[:2])
        pruned = {action.trial for _, actions in watched.decisions for action in actions if isinstance(action, Prune)}
        better += [_truth(seed, trials[number].cell) > chosen + EQUIVALENCE_MARGIN for number in pruned]
    assert len(better) > 20
    assert np.mean(better) <= 0.1


def _truth(seed: int, cell: Cell) -> float:
    cells = [CELLS[i] for i in np.random.default_rng(seed).permutation(len(CELLS))]
    return unrelated(seed, cells)[cell](1.0)


@pytest.mark.parametrize("related", [True, False])
def test_the_choice_is_better_than_that_of_random_search_where_neighbours_tell_and_else_not_worse(
    related: bool,
) -> None:
    ours, random = (
        np.array([played(policy, seed, related=related)[0].regret for seed in range(6)])
        for policy in ("rlplan", "random")
    )
    difference, error = float((ours - random).mean()), float((ours - random).std(ddof=1) / np.sqrt(len(ours)))
    assert difference < (0.0 if related else 2 * error)  # over 40 other seeds −0.008 ± 0.006
