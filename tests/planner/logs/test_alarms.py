import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.logs.alarms import Scored, UpdateWatch, fall, falls


def scored(scores: list[float], error: float | None = 0.01, rewards: list[float] | None = None) -> list[Scored]:
    return [
        Scored(10.0 * number, score, error, None if rewards is None else rewards[number])
        for number, score in enumerate(scores)
    ]


def first_warning(seen: list[Scored]) -> int | None:
    return next((number for number in range(1, len(seen) + 1) if fall(seen[:number])), None)


@pytest.mark.parametrize("error", [0.01, None])
def test_a_fall_is_found_and_a_rise_is_none(error: float | None) -> None:
    rising = [0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.6, 0.61]

    assert first_warning(scored(rising, error)) is None
    assert first_warning(scored([*rising, 0.3, 0.25, 0.2, 0.2], error)) is not None


@pytest.mark.parametrize(
    ("rewards", "rule"), [(None, "fall"), ([0.5, 0.6, 0.6, 0.7, 0.8], "hacking"), ([0.5, 0.6, 0.6, 0.2, 0.2], "fall")]
)
def test_the_warning_names_both_means_what_to_go_back_to_and_whether_the_training_reward_fell(
    rewards: list[float] | None, rule: str
) -> None:
    warned = fall(scored([0.4, 0.6, 0.6, 0.4, 0.4], rewards=rewards))
    assert warned is not None
    assert warned.rule == rule
    assert "0.400, is 0.200 below" in warned.evidence
    assert "0.600 at 20" in warned.evidence
    assert "checkpoint at 20" in warned.advice


@pytest.mark.parametrize(
    ("scores", "error"),
    [
        ([0.9, 0.9, 0.1], 0.01),  # before the fourth validation
        ([0.60, 0.60, 0.56, 0.56], 1e-4),  # within a few points
        ([6.0, 6.0, 3.0, 3.0], 0.01),  # on another scale
    ],
)
def test_what_cannot_be_told_is_not_warned_of(scores: list[float], error: float) -> None:
    assert fall(scored(scores, error)) is None


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    level=st.floats(0.1, 0.9),
    noise=st.floats(0.002, 0.05),
    count=st.sampled_from([10, 20, 40, 400]),
    told=st.booleans(),
)
def test_a_run_that_is_merely_noisy_is_never_warned_of(
    seed: int, level: float, noise: float, count: int, told: bool
) -> None:
    scores = np.clip(np.random.default_rng(seed).normal(level, noise, count), 0, 1)

    assert first_warning(scored(scores.tolist(), noise if told else None)) is None


@pytest.mark.parametrize("error", [0.01, None])
def test_all_warnings_of_a_run_are_those_after_each_validation(error: float | None) -> None:
    seen = scored([0.2, 0.3, 0.45, 0.5, 0.55, 0.6, 0.58, 0.61, 0.3, 0.25, 0.2, 0.2, 0.5, 1.2, 0.1], error)
    assert falls(seen) == [fall(seen[:upto]) for upto in range(1, len(seen) + 1)]
    assert any(falls(seen))
    assert falls(seen, 9) == falls(seen)[9:]


DEAD = {"loss": 0.0, "grad_norm": 0.0, "pass_rate": 0.0, "zero_variance_share": 1.0}


def test_five_updates_without_any_signal_are_a_dead_run() -> None:
    watch = UpdateWatch(groups=16)

    warned = [watch.see(step, DEAD) for step in range(1, 6)]

    assert [each is None for each in warned] == [True] * 4 + [False]
    assert warned[-1] is not None
    assert (warned[-1].rule, "up to 5" in warned[-1].evidence) == ("dead", True)


@pytest.mark.parametrize("alive", [{"pass_rate": 0.5}, {"grad_norm": 0.1, "zero_variance_share": 0.9}])
def test_one_update_with_signal_begins_the_count_anew(alive: dict[str, float]) -> None:
    watch = UpdateWatch(groups=16)
    for step in range(4):
        watch.see(step, DEAD)
    watch.see(4, {**DEAD, **alive})

    assert watch.see(5, DEAD) is None


def test_a_mastered_run_and_one_of_few_groups_are_not_dead() -> None:
    mastered, small = UpdateWatch(groups=16), UpdateWatch(groups=4)

    assert all(mastered.see(step, {**DEAD, "pass_rate": 1.0}) is None for step in range(20))
    assert all(small.see(step, DEAD) is None for step in range(20))


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
@pytest.mark.parametrize("value", [math.nan, math.inf, None], ids=str)
def test_a_number_that_is_not_finite_is_named(name: str, value: float | None) -> None:
    """Also as it is stored, where JSON has a null for it."""
    warned = UpdateWatch().see(7, {"loss": 0.1, "grad_norm": 1.0, name: value})

    assert warned is not None
    said = "not a finite number" if value is None else value
    assert (warned.rule, warned.evidence) == ("not-finite", f"{name} is {said} in update 7")


def test_what_it_remembers_goes_on_after_a_resume() -> None:
    watch, other = UpdateWatch(groups=16), UpdateWatch(groups=16)
    for step in range(4):
        watch.see(step, DEAD)
    other.restore(watch.state())

    assert other.see(4, DEAD) == watch.see(4, DEAD) is not None
