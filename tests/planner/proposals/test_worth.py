"""What pilots are worth: free information is never harmful, and what tells nothing is worth nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.prior.draws import PriorDraws
from planner.prior.laws import Circumstances, Run
from planner.prior.value import ObservedPilot, Worth, worth_of

HERE = Circumstances(8e9, False, 8192, 0.45, 100_000)
CELLS = [(8, 64), (16, 32), (16, 128), (32, 32), (64, 64), (256, 32)]


@pytest.fixture(scope="module")
def prior() -> PriorDraws:
    return PriorDraws([Run(*cell, 0.99, HERE) for cell in CELLS])


def worth(
    prior: PriorDraws, piloted: list[int], *, steps: int = 100, answers: int = 1200, wider: float = 1.0, worse: int = 0
) -> Worth:
    """Return it of pilots of some cells; `wider` pulls the draws apart, `worse` cells are added that cannot win."""
    places = list(range(len(CELLS)))
    finals = prior.expected(places, [2000] * len(CELLS)).scores
    means = prior.weights @ finals
    finals = means.max() + wider * (finals - means.max())
    finals = np.concatenate([finals, np.repeat(finals.min(axis=1, keepdims=True) - 0.1, worse, axis=1)], axis=1)
    along = np.linspace(10, steps, 10)
    pilots = [ObservedPilot(cell, prior.at([cell] * len(along), along), HERE.pass_rate, answers) for cell in piloted]
    return worth_of(finals.astype(np.float32), prior.weights, pilots, prior.folds)


@given(st.lists(st.sampled_from(range(len(CELLS))), unique=True), st.integers(20, 1500), st.integers(10, 100_000))
@settings(max_examples=15, deadline=None)
def test_free_information_is_never_harmful(prior: PriorDraws, piloted: list[int], steps: int, answers: int) -> None:
    found = worth(prior, piloted, steps=steps, answers=answers)
    assert 0 <= found.gain < 0.1
    assert found.error < 0.003


def test_pilots_that_see_nothing_are_worth_nothing_and_sharper_and_longer_ones_more(prior: PriorDraws) -> None:
    blind, short, long = (
        worth(prior, [0, 3, 5], steps=steps, answers=answers).gain
        for steps, answers in ((3, 2), (100, 1200), (1500, 12_000))
    )
    assert blind < 0.0005
    assert long > short > blind


def test_cells_that_cannot_win_change_nothing_and_a_wider_prior_is_worth_more(prior: PriorDraws) -> None:
    plain = worth(prior, [0, 3, 5], steps=500).gain
    assert worth(prior, [0, 3, 5], steps=500, worse=30).gain == pytest.approx(plain, abs=1e-4)
    assert worth(prior, [0, 3, 5], steps=500, wider=2.0).gain > 1.5 * plain
