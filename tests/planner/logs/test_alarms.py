import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.logs.alarms import Scored, fall, falls


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
