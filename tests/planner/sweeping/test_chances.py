from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.pooling.pool import joint_of
from planner.sweeping.chances import NEAR, Chances
from planner.trials import TrialState
from planner.view import Configuration, View
from tests.planner.pooling.sweeps import along, open_cell, smooth, sweep

CELLS = ((4, 16), (8, 32), (16, 64), (32, 128))
TRUTH = smooth(6, CELLS)
SEEN = sweep(TRUTH, dict.fromkeys(CELLS[:3], 30))
WORLDS = joint_of(SEEN, 300)


def with_states(states: dict[int, TrialState]) -> View:
    trials = {number: replace(each, state=states.get(number, each.state)) for number, each in SEEN.trials.items()}
    return replace(SEEN, trials=trials)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.integers(1, 4), st.sampled_from(list(TrialState))))
def test_chances_are_of_what_can_still_be_chosen(states: dict[int, TrialState]) -> None:
    seen = with_states(states)
    chances = Chances(seen, WORLDS)
    out = {each.configuration for each in seen.trials.values() if each.state in {TrialState.FAILED, TrialState.PRUNED}}
    expected = [each for each in WORLDS.configurations if each not in out] or list(WORLDS.configurations)
    assert chances.candidates == expected
    assert [WORLDS.configurations[place] for place in chances.places] == expected
    assert chances.best.sum() == pytest.approx(1.0)
    assert (chances.near >= chances.best).all()
    assert (chances.near <= 1).all()
    assert (chances.low <= chances.median).all()
    assert (chances.median <= chances.high).all()
    assert chances.mean[chances.leader] == chances.mean.max()
    assert len(chances.protected) >= min(2, len(expected))
    assert {chances.leader, int(np.argmax(chances.best))} <= chances.protected


def test_near_means_within_what_seeds_differ_by() -> None:
    scores = WORLDS.at(1.0)
    by_hand = [(scores[:, place] >= scores.max(axis=1) - NEAR).mean() for place in range(scores.shape[1])]
    assert Chances(SEEN, WORLDS).near == pytest.approx(by_hand)


def test_one_seed_that_lives_keeps_its_configuration() -> None:
    twin = along(9, CELLS[0], TRUTH[CELLS[0]], 30)
    pruned = replace(SEEN.trials[1], state=TrialState.PRUNED)
    both = replace(SEEN, trials={**SEEN.trials, 1: pruned, 9: twin})
    assert Configuration(*CELLS[0]) in Chances(both, WORLDS).place
    gone = replace(both, trials={**both.trials, 9: replace(twin, state=TrialState.FAILED)})
    assert Configuration(*CELLS[0]) not in Chances(gone, WORLDS).place


def test_open_cells_can_be_chosen_and_figures_are_plain_numbers() -> None:
    seen = replace(SEEN, open_cells={Configuration(64, 256): open_cell((64, 256))})
    chances = Chances(seen, joint_of(seen, 100))
    figures = chances.figures(chances.place[Configuration(64, 256)])
    assert set(figures) == {"probability_best", "probability_near_best", "median", "low", "high"}
    assert all(type(figure) is float for figure in figures.values())
