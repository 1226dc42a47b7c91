import logging
from dataclasses import replace

import optuna
import pytest

from planner.sweeping.beliefs import Beliefs
from planner.sweeping.region import Region, possible_region
from planner.sweeping.search import SAMPLERS, frozen, propose_cell, told_rows
from planner.sweeping.search_space import B, N, Space
from planner.trials import TrialState
from planner.view import Configuration, OpenCell, Seen, TrialView
from tests.planner.sweeping.views import trial, view

PAUSED = TrialState.PAUSED
OPEN = [OpenCell(n, batch, 5, 1.0, 0.1) for n in (2, 4, 8, 16, 32, 64, 128) for batch in (8, 16, 32, 64, 128, 256)]


def sweep() -> list[TrialView]:
    """Good around n = 16, B = 32; hopeless at n = 128."""
    tops = {(8, 32): 0.70, (16, 64): 0.72, (128, 256): 0.3}
    return [
        trial(i, PAUSED, step=60, asymptote=top, middle=4.0, cell=cell) for i, (cell, top) in enumerate(tops.items())
    ]


def open_cells(trials: list[TrialView]) -> list[OpenCell]:
    taken = {each.cell for each in trials}
    return [cell for cell in OPEN if cell.cell not in taken]


def test_the_region_is_an_octave_around_what_may_still_win() -> None:
    region = possible_region(Beliefs().standing(view(sweep())), 0.02)
    assert region == Region((2, 4), (5, 7))
    assert (4, 16) in region
    assert (32, 128) in region
    assert (2, 32) not in region
    assert (64, 64) not in region
    assert possible_region(Beliefs().standing(view([trial(0)])), 0.02) is None


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers_propose_open_cells_of_the_region(sampler: str) -> None:
    trials = sweep()
    region = possible_region(Beliefs().standing(view(trials)), 0.02)
    assert region is not None
    proposed = set()
    for seed in range(6):
        seen = view(trials, open_cells=open_cells(trials), seed=seed)
        proposal = propose_cell(seen, Beliefs(), sampler)
        assert proposal is not None
        assert proposal == propose_cell(seen, Beliefs(), sampler)
        cell = proposal.rollouts_per_prompt, proposal.prompts_per_batch
        assert Configuration(*cell) in seen.open_cells
        assert cell in region
        proposed.add(cell)
    assert len(proposed) > 1


def test_samplers_are_told_predictions_and_never_the_scores_so_far() -> None:
    trials = [*sweep()[:2], trial(5, PAUSED, step=8, asymptote=0.9, middle=30.0, cell=(16, 32))]
    seen = view(trials)
    beliefs = Beliefs()
    standing, known = beliefs.standing(seen), beliefs.of(seen)
    space = Space.of(Region((0, 0), (10, 10)), [], [])
    assert told_rows(standing, space) == [0, 1, 2]
    for row, each in enumerate(trials):
        told = frozen(standing, row, space)
        assert told.state is optuna.trial.TrialState.COMPLETE
        assert told.value == known[each.trial].median
        assert told.value not in {one.score for one in each.scores}
        assert told.params == {N: each.rollouts_per_prompt.bit_length() - 1, B: each.prompts_per_batch.bit_length() - 1}
        assert not told.intermediate_values


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (TrialState.PLANNED, optuna.trial.TrialState.RUNNING),
        (TrialState.RUNNING, optuna.trial.TrialState.RUNNING),
        (TrialState.FAILED, optuna.trial.TrialState.FAIL),
    ],
)
def test_trials_without_a_prediction_are_pending_or_failed(state: TrialState, told: optuna.trial.TrialState) -> None:
    early = trial(0, state, seen=[Seen(0, 0.0, 0.4, None)])
    standing = Beliefs().standing(view([early]))
    assert frozen(standing, 0, Space.of(Region((0, 0), (10, 10)), [], [])).state is told


def test_what_lies_outside_of_the_region_is_not_told() -> None:
    trials = sweep()
    standing = Beliefs().standing(view(trials))
    region = possible_region(standing, 0.02)
    assert region is not None
    assert told_rows(standing, Space.of(region, [], [])) == [0, 1]


def test_nothing_is_proposed_without_open_cells_money_or_a_curve() -> None:
    trials = sweep()
    cells = open_cells(trials)
    assert propose_cell(view(trials), Beliefs(), "tpe") is None
    assert propose_cell(view(trials, open_cells=cells, left=1.0), Beliefs(), "tpe") is None
    assert propose_cell(view(trials, open_cells=cells), Beliefs(), "tpe", gpu_hours=1.0) is None
    assert propose_cell(view([trial(0)], open_cells=cells), Beliefs(), "tpe") is None


def test_the_sequence_of_qmc_goes_on_with_the_trials() -> None:
    trials, cells = sweep(), [*OPEN]
    found = []
    for _ in range(6):
        proposal = propose_cell(view(trials, open_cells=cells), Beliefs(), "qmc")
        assert proposal is not None
        cell = proposal.rollouts_per_prompt, proposal.prompts_per_batch
        found.append(cell)
        trials.append(trial(10 + len(found), cell=cell))
    assert len(set(found)) > 3


def test_optunas_log_is_left_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    before = optuna.logging.get_verbosity()
    optuna.logging.enable_propagation()
    try:
        with caplog.at_level(logging.DEBUG):
            propose_cell(view(sweep(), open_cells=OPEN), Beliefs(), "tpe")
    finally:
        optuna.logging.disable_propagation()
    assert not caplog.records
    assert optuna.logging.get_verbosity() == before


# Further axes

RECIPES = ("easy", "dapo")


def compared(rates: tuple[float, float] | None = None) -> tuple[list[TrialView], list[OpenCell]]:
    """The sweep with two recipes, of which the second is better everywhere, and all cells open in both."""
    last = (("learning_rate", 1.0),) if rates else ()
    trials = [
        trial(
            10 * which + i,
            PAUSED,
            step=60,
            asymptote=top + 0.05 * which,
            middle=4.0,
            cell=cell,
            axes=(("recipe", recipe), *last),
        )
        for which, recipe in enumerate(RECIPES)
        for i, (cell, top) in enumerate({(8, 32): 0.70, (16, 64): 0.72}.items())
    ]
    cells = [
        replace(each, axes=(("recipe", recipe), *last), learning_rates=rates) for recipe in RECIPES for each in OPEN
    ]
    taken = set() if rates else {each.configuration for each in trials}
    return trials, [cell for cell in cells if cell.configuration not in taken]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_recipes_are_chosen_among_the_open_ones(sampler: str) -> None:
    trials, cells = compared()
    proposed = set()
    for seed in range(6):
        seen = view(trials, open_cells=cells, seed=seed)
        proposal = propose_cell(seen, Beliefs(), sampler)
        assert proposal is not None
        assert proposal == propose_cell(seen, Beliefs(), sampler)
        asked = Configuration(proposal.rollouts_per_prompt, proposal.prompts_per_batch, proposal.axes)
        assert asked in seen.open_cells
        assert f", {dict(asked.axes)['recipe']}" in proposal.why.reason
        proposed.add(asked.axes)
    assert len(proposed) == 2


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("rates", [(0.3, 3.0), (0.95, 1.05)])
def test_learning_rates_are_asked_for_within_their_range_alone(sampler: str, rates: tuple[float, float]) -> None:
    trials, cells = compared(rates)
    low, high = rates
    found = []
    for turn in range(6):
        seen = view(trials, open_cells=cells, seed=turn)
        proposal = propose_cell(seen, Beliefs(), sampler)
        assert proposal is not None
        asked = Configuration(proposal.rollouts_per_prompt, proposal.prompts_per_batch, proposal.axes)
        assert asked not in {each.configuration for each in trials}
        factor = dict(proposal.axes)["learning_rate"]
        assert isinstance(factor, float)
        assert low <= factor <= high
        assert proposal.why.seen["region"]["learning_rate"] == [low, high]
        found.append(factor)
        trials.append(trial(100 + turn, cell=asked[:2], axes=proposal.axes))
    assert len(set(found)) > 2


def test_samplers_are_told_each_trials_axes() -> None:
    trials, cells = compared((0.3, 3.0))
    standing = Beliefs().standing(view(trials))
    space = Space.of(Region((0, 0), (10, 10)), cells, [each.configuration for each in trials])
    for row, each in enumerate(trials):
        told = frozen(standing, row, space)
        assert (told.params["recipe"], told.params["learning_rate"]) == (dict(each.axes)["recipe"], 1.0)


def test_recipes_at_one_cell_compete_and_are_no_seeds_of_one_another() -> None:
    trials, _ = compared()
    beliefs = Beliefs()
    standing, known = beliefs.standing(view(trials)), beliefs.of(view(trials))
    assert len(standing.configuration_means) == 4
    better, worse = known[11], known[1]
    assert better.probability_best > worse.probability_best
