"""A falling training reward asks for a validation; a noisy one hardly ever does."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.watching.trigger import FEWEST_IN_WINDOW, LEAST_FALL, RewardTrigger

MOST_FALSE = 1 / 500  # of runs whose reward is merely noisy
RUNS = {10: 100, 40: 500, 100: 500, 400: 500}  # by their updates


def asked(rates: Sequence[float], every: int) -> list[int]:
    """Return the updates, from 1, after which a validation is asked for beside the regular ones."""
    trigger, found = RewardTrigger(every), []
    for update, rate in enumerate(rates, 1):
        if trigger.see(rate) is not None:
            found.append(update)
        if update % every == 0:
            trigger.validated()
    return found


@pytest.mark.parametrize("updates", RUNS)
@pytest.mark.parametrize("prompts", [4, 16])
def test_a_merely_noisy_reward_hardly_ever_asks(updates: int, prompts: int) -> None:
    """Prompts of every difficulty, 8 answers each; flat, and rising throughout."""
    generator = np.random.default_rng([updates, prompts])
    runs = RUNS[updates]
    false = 0
    for run in range(runs):
        rise = np.linspace(0, 0.3, updates) * (run % 2)
        difficulty = generator.beta(0.7, 0.7, (updates, prompts))
        rates = generator.binomial(8, np.clip(difficulty + rise[:, None], 0, 1)).mean(axis=1) / 8
        false += bool(asked(rates.tolist(), max(1, updates // 40)))
    assert false <= MOST_FALSE * runs


@given(st.floats(0, 0.9), st.lists(st.floats(0, LEAST_FALL * 0.99), min_size=16, max_size=200))
def test_what_stays_within_a_tenth_asks_for_nothing(level: float, noise: list[float]) -> None:
    assert asked([level + each for each in noise], 10) == []


@pytest.mark.parametrize(("sd", "every"), [(0.0, 10), (0.02, 10), (0.04, 40), (0.1, 200)])
def test_a_collapse_is_asked_about_long_before_the_next_validation_of_a_long_interval(sd: float, every: int) -> None:
    generator = np.random.default_rng(3)
    at = 5 * every + 3
    rates = np.r_[np.full(at, 0.7), np.full(2 * every, 0.1)] + generator.normal(0, sd, at + 2 * every)
    first = asked(np.clip(rates, 0, 1).tolist(), every)[0]
    assert at < first <= at + max(FEWEST_IN_WINDOW, every // 4)


def test_a_reward_that_stays_low_asks_once_and_one_that_falls_again_asks_again() -> None:
    rates = [0.7] * 100 + [0.4] * 100
    (first,) = asked(rates, 40)
    assert 100 < first <= 110
    assert len(asked(rates + [0.1] * 60, 40)) == 2  # further down
    assert len(asked(rates + [0.7] * 60 + [0.4] * 60, 40)) == 2  # recovered, and down again


def test_there_is_one_at_most_between_two_regular_validations() -> None:
    rates = [0.9] * 40 + [0.6] * 30 + [0.2] * 30
    assert len(asked(rates, 40)) >= 2
    assert len(asked(rates, 1000 // FEWEST_IN_WINDOW)) == 1


@given(st.lists(st.floats(0, 1), min_size=30, max_size=120), st.integers(0, 119))
def test_it_decides_the_same_after_a_restart(rates: list[float], cut: int) -> None:
    first, second = RewardTrigger(8), RewardTrigger(8)
    told = [first.see(each) for each in rates]
    for each in rates[:cut]:
        second.see(each)
    other = RewardTrigger(8)
    other.restore(json.loads(json.dumps(second.state())))
    assert [other.see(each) for each in rates[cut:]] == told[cut:]
