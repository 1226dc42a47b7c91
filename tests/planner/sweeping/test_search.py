import logging
from dataclasses import replace

import numpy as np
import optuna
import pytest

from planner.pooling.pool import Pool
from planner.sweeping.actions import Propose
from planner.sweeping.beliefs import beliefs_of
from planner.sweeping.chances import Chances
from planner.sweeping.search import SAMPLERS, propose_cell, told_trials
from planner.sweeping.search_space import B, N, Region, Space, possible_region
from planner.trials import TrialState
from planner.view import Configuration, OpenCell, Seen, TrialView, View
from tests.planner.sweeping.views import trial, view

PAUSED = TrialState.PAUSED
OPEN = [OpenCell(n, batch, 5, 1.0, 0.1) for n in (2, 4, 8, 16, 32, 64, 128) for batch in (8, 16, 32, 64, 128, 256)]
EVERYWHERE = Region((0, 0), (10, 10))


def chances(seen: View) -> Chances:
    return Chances(seen, Pool().worlds(seen, 300))


def proposal(seen: View, sampler: str, gpu_hours: float | None = None) -> Propose | None:
    return propose_cell(seen, chances(seen), sampler, seen.gpu_hours_left if gpu_hours is None else gpu_hours)


def sweep() -> list[TrialView]:
    """Good around n = 16, B = 32; hopeless at n = 128."""
    tops = {(8, 32): 0.70, (16, 64): 0.72, (128, 256): 0.3}
    return [
        trial(i, PAUSED, step=60, asymptote=top, middle=4.0, cell=cell) for i, (cell, top) in enumerate(tops.items())
    ]


def open_cells(trials: list[TrialView]) -> list[OpenCell]:
    taken = {each.cell for each in trials}
    return [cell for cell in OPEN if cell.cell not in taken]


def test_the_region_is_a_box_around_what_would_not_be_given_up() -> None:
    seen = view(sweep())
    region = possible_region(chances(seen))
    assert region == Region((3, 5), (4, 6))
    assert (8, 64) in region
    assert (128, 256) not in region
    assert (4, 32) not in region
    known = chances(replace(seen, open_cells={each.configuration: each for each in OPEN}))
    wider = possible_region(known)
    limit = 0.02 * 10 / len(known.candidates)
    assert all(each[:2] in wider for each, near in zip(known.candidates, known.near, strict=True) if near >= limit)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers_propose_open_cells_of_the_region(sampler: str) -> None:
    trials = sweep()
    proposed = set()
    for seed in range(6):
        seen = view(trials, open_cells=open_cells(trials), seed=seed)
        found = proposal(seen, sampler)
        assert found is not None
        assert found == proposal(seen, sampler)
        cell = found.rollouts_per_prompt, found.prompts_per_batch
        assert Configuration(*cell) in seen.open_cells
        assert cell in possible_region(chances(seen))
        proposed.add(cell)
    assert len(proposed) > 1


def test_samplers_are_told_what_the_worlds_predict_and_never_the_scores_so_far() -> None:
    trials = [*sweep()[:2], trial(5, PAUSED, step=8, asymptote=0.9, middle=30.0, cell=(16, 32))]
    known = chances(view(trials))
    believed = beliefs_of(known.worlds, trials)
    told = told_trials(view(trials), known, Space.of(EVERYWHERE, [], []))
    assert len(told) == 3
    for one, each in zip(told, trials, strict=True):
        assert one.state is optuna.trial.TrialState.COMPLETE
        assert one.value == believed[each.trial].score.median
        assert one.value not in {seen.score for seen in each.scores}
        assert one.params == {N: each.rollouts_per_prompt.bit_length() - 1, B: each.prompts_per_batch.bit_length() - 1}
        assert not one.intermediate_values


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (TrialState.PLANNED, optuna.trial.TrialState.RUNNING),
        (TrialState.RUNNING, optuna.trial.TrialState.RUNNING),
        (TrialState.FAILED, optuna.trial.TrialState.FAIL),
    ],
)
def test_trials_without_a_prediction_are_pending_or_failed(state: TrialState, told: optuna.trial.TrialState) -> None:
    seen = view([*sweep(), trial(9, state, seen=[Seen(0, 0.0, 0.4, None)])])
    assert told_trials(seen, chances(seen), Space.of(EVERYWHERE, [], []))[-1].state is told


def test_what_lies_outside_of_the_region_is_not_told() -> None:
    seen = view(sweep())
    known = chances(seen)
    told = told_trials(seen, known, Space.of(possible_region(known), [], []))
    assert [one.params[N] for one in told] == [3, 4]


def test_of_too_many_trials_those_of_the_likeliest_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planner.sweeping.search.MOST_TOLD", 2)
    seen = view(sweep()[::-1])
    told = told_trials(seen, chances(seen), Space.of(EVERYWHERE, [], []))
    assert [one.params[N] for one in told] == [3, 4]


def test_nothing_is_proposed_without_open_cells_or_money() -> None:
    trials = sweep()
    assert proposal(view(trials), "tpe") is None
    assert proposal(view(trials, open_cells=open_cells(trials)), "tpe", gpu_hours=1.0) is None


def test_the_sequence_of_qmc_goes_on_with_the_trials() -> None:
    trials = sweep()
    found = []
    for _ in range(6):
        asked = proposal(view(trials, open_cells=[*OPEN]), "qmc")
        assert asked is not None
        cell = asked.rollouts_per_prompt, asked.prompts_per_batch
        found.append(cell)
        trials.append(trial(10 + len(found), cell=cell))
    assert len(set(found)) > 3


def test_optunas_log_is_left_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    before = optuna.logging.get_verbosity()
    optuna.logging.enable_propagation()
    try:
        with caplog.at_level(logging.DEBUG):
            proposal(view(sweep(), open_cells=OPEN), "tpe")
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
        found_one = proposal(seen, sampler)
        assert found_one is not None
        assert found_one == proposal(seen, sampler)
        asked = Configuration(found_one.rollouts_per_prompt, found_one.prompts_per_batch, found_one.axes)
        assert asked in seen.open_cells
        assert f", {dict(asked.axes)['recipe']}" in found_one.why.reason
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
        found_one = proposal(seen, sampler)
        assert found_one is not None
        asked = Configuration(found_one.rollouts_per_prompt, found_one.prompts_per_batch, found_one.axes)
        assert asked not in {each.configuration for each in trials}
        factor = dict(found_one.axes)["learning_rate"]
        assert isinstance(factor, float)
        assert low <= factor <= high
        assert found_one.why.seen["region"]["learning_rate"] == [low, high]
        found.append(factor)
        trials.append(trial(100 + turn, cell=asked[:2], axes=found_one.axes))
    assert len(set(found)) > 2


def test_samplers_are_told_each_trials_axes() -> None:
    trials, cells = compared((0.3, 3.0))
    seen = view(trials)
    space = Space.of(EVERYWHERE, cells, [each.configuration for each in trials])
    told = told_trials(seen, chances(seen), space)
    for one, each in zip(told, trials, strict=True):
        assert (one.params["recipe"], one.params["learning_rate"]) == (dict(each.axes)["recipe"], 1.0)


def test_recipes_at_one_cell_compete_and_are_no_seeds_of_one_another() -> None:
    trials, _ = compared()
    seen = view(trials)
    known = chances(seen)
    assert len(known.candidates) == 4
    believed = beliefs_of(known.worlds, trials)
    assert believed[11].probability_best > believed[1].probability_best
    assert np.isclose(sum(each.probability_best for each in believed.values()), 1)
