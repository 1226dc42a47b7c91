from dataclasses import replace

import pytest

from budgets.errors import InputError
from planner.sweeping.beliefs import Beliefs
from planner.sweeping.recommendation import CellFacts, Ranked, recommend
from planner.sweeping.view import Cell, TrialView
from planner.trials import TrialState
from tests.planner.sweeping.views import trial, view

PAUSED = TrialState.PAUSED
CELLS: dict[Cell, float] = {(4, 16): 0.55, (8, 16): 0.7, (16, 16): 0.3}


def sweep(step: int = 60) -> list[TrialView]:
    return [
        trial(i, PAUSED, step=step, asymptote=top, middle=4.0, cell=cell) for i, (cell, top) in enumerate(CELLS.items())
    ]


def facts(*others: Cell) -> dict[Cell, CellFacts]:
    return {cell: CellFacts(1e-6, "grpo", 0.3) for cell in (*others, *CELLS)}


def ranked(trials: list[TrialView], *others: Cell) -> Ranked:
    return recommend(view(trials), Beliefs(), 100.0, facts(*others))


def test_cells_are_ranked_by_what_they_are_predicted_to_score() -> None:
    result = ranked(sweep(), (64, 64))
    order = [(cell.rollouts_per_prompt, cell.prompts_per_batch) for cell in result.cells]
    assert order == [(8, 16), (4, 16), (16, 16), (64, 64)]
    assert [cell.rank for cell in result.cells] == [1, 2, 3, 4]
    assert (result.chosen, result.runner_up) == result.cells[:2]
    best = result.cells[0]
    assert best.update_steps == 333
    assert best.gpu_hours_to_target == pytest.approx(99.9)
    assert best.gpu_hours_spent == 60
    assert best.status == "paused"
    assert best.expected_score == pytest.approx(0.7, abs=0.05)
    assert best.score_low is not None
    assert best.score_high is not None
    assert best.score_low < 0.7 < best.score_high
    assert result.reason.startswith("n=8, B=16 for 333 updates: at 100 GPU-hours it is predicted 0.")


def test_a_cell_without_a_curve_has_no_score_and_no_trial_no_probability() -> None:
    result = ranked([*sweep(), trial(9, cell=(64, 64))], (64, 64), (128, 64))
    planned, untried = result.cells[3:]
    assert (planned.status, untried.status) == ("planned", "proposed")
    assert planned.expected_score is planned.score_low is planned.score_high is None
    assert planned.probability_best is not None
    assert planned.probability_best > 0
    assert untried.probability_best is None
    assert sum(cell.probability_best or 0 for cell in result.cells) == pytest.approx(1)


def test_the_expected_regret_is_what_the_best_of_all_has_over_the_chosen() -> None:
    clear = ranked(sweep(90))
    close = ranked([trial(i, PAUSED, step=10, asymptote=0.7, cell=cell) for i, cell in enumerate(CELLS)])
    assert clear.expected_regret is not None
    assert close.expected_regret is not None
    assert 0 <= clear.expected_regret < 0.03 < close.expected_regret


def test_differences_within_the_noise_of_seeds_are_called_equivalent() -> None:
    tops = (0.700, 0.702, 0.4)
    trials = [trial(i, PAUSED, step=90, asymptote=tops[i], middle=2.0, cell=cell) for i, cell in enumerate(CELLS)]
    result = ranked(trials)
    assert len(result.equivalent) == 1
    assert "it is equivalent to n=" in result.reason


def test_pruned_cells_keep_their_score_and_come_after_those_in_the_competition() -> None:
    trials = sweep()
    trials[1] = replace(trials[1], state=TrialState.PRUNED)
    trials[0] = replace(trials[0], state=TrialState.FAILED)
    result = ranked(trials)
    assert [cell.status for cell in result.cells] == ["paused", "pruned", "failed"]
    assert [cell.probability_best for cell in result.cells] == [pytest.approx(1), 0, 0]
    assert all(cell.expected_score for cell in result.cells)


def test_when_all_are_out_the_best_of_them_is_named_and_that_is_said() -> None:
    result = ranked([replace(each, state=TrialState.PRUNED) for each in sweep()])
    assert result.chosen is not None
    assert result.chosen.rollouts_per_prompt == 8
    assert result.expected_regret is None
    assert "out of the competition (pruned)" in result.reason


def test_seeds_of_a_cell_speak_with_one_voice() -> None:
    seeds = [trial(7 + i, PAUSED, step=60, asymptote=0.5 + 0.2 * i, middle=4.0, cell=(4, 16)) for i in range(2)]
    one = ranked([*seeds, *sweep()[1:]]).cells
    cell = next(each for each in one if each.rollouts_per_prompt == 4)
    assert cell.gpu_hours_spent == 120
    assert cell.expected_score == pytest.approx(0.6, abs=0.07)


def test_without_any_curve_nothing_is_chosen_and_the_reason_says_so() -> None:
    result = ranked([trial(0, TrialState.FAILED, cell=(4, 16)), trial(1, cell=(8, 16))])
    assert (result.chosen, result.runner_up, result.expected_regret) == (None, None, None)
    assert [cell.expected_score for cell in result.cells] == [None] * 3
    assert "none of the 2 trials has a score after its first update (1 failed)" in result.reason


def test_facts_are_needed_of_every_cell_with_a_trial() -> None:
    with pytest.raises(InputError, match=r"\(99, 1\)"):
        ranked([trial(0, cell=(99, 1))])
