import logging
from dataclasses import replace

import optuna
import pytest

from planner.belief.pool import Pool
from planner.policy.actions import Propose
from planner.policy.chances import Chances
from planner.policy.search import SAMPLERS, possible_region, propose_cell
from planner.view import Configuration, OpenCell, TrialState, TrialView, View
from tests.planner.policy.views import trial, view

PAUSED = TrialState.PAUSED
OPEN = [OpenCell(n, batch, 5, 1.0, 0.1) for n in (2, 4, 8, 16, 32, 64, 128) for batch in (8, 16, 32, 64, 128, 256)]


def chances(seen: View) -> Chances:
    return Chances(seen, Pool().joint_draws(seen, 300))


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


def test_nothing_is_proposed_without_open_cells_or_money() -> None:
    trials = sweep()
    assert proposal(view(trials), "tpe") is None
    assert proposal(view(trials, open_cells=open_cells(trials)), "tpe", gpu_hours=1.0) is None


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


@pytest.mark.parametrize("recipes", [False, True])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers_propose_open_cells_of_the_region_in_every_recipe(sampler: str, recipes: bool) -> None:
    trials, cells = compared() if recipes else (sweep(), open_cells(sweep()))
    proposed = set()
    for seed in range(6):
        seen = view(trials, open_cells=cells, seed=seed)
        found = proposal(seen, sampler)
        assert found is not None
        assert found == proposal(seen, sampler)
        asked = Configuration(found.rollouts_per_prompt, found.prompts_per_batch, found.axes)
        assert asked in seen.open_cells
        assert asked[:2] in possible_region(chances(seen))
        assert all(f", {recipe}" in found.why.reason for _, recipe in found.axes)
        proposed.add(found.axes if recipes else asked)
    assert len(proposed) > 1


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
        assert found_one.why.figures["region"]["learning_rate"] == [low, high]
        found.append(factor)
        trials.append(trial(100 + turn, cell=asked[:2], axes=found_one.axes))
    assert len(set(found)) > 2
