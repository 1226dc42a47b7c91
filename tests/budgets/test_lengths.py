import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from budgets.expected_lengths import expected_length, kind_of
from budgets.lengths import REST_SHARE, InterruptedLengths, ResponseLengths, interrupted
from budgets.workload import Turns

CASES = [
    (0.4 * 8192, 8192, 0.6),
    (0.1 * 8192, 8192, 1.0),
    (0.7 * 14336, 14336, 0.8),
    (0.9 * 4096, 4096, 0.4),
    (150, 16384, 0.5),
    (40, 8192, 0.1),
    (0.3 * 32768, 32768, 2.0),
]


def log_mean(lengths: ResponseLengths, normals: np.ndarray) -> float:
    """Find the log-normal's location anew: the one whose cut draws have the mean that was asked for."""
    low, high = 0.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        mean = np.minimum(np.exp(middle + lengths.spread * normals), lengths.cap).mean()
        low, high = (middle, high) if mean < lengths.mean else (low, middle)
    return low


def draws_of(lengths: ResponseLengths, size: int, seed: int = 11) -> np.ndarray:
    """Draw min(log-normal, cap), without any help of the class that is tested."""
    location = log_mean(lengths, np.random.default_rng(seed).standard_normal(200_000))
    normals = np.random.default_rng(seed + 1).standard_normal(size)
    return np.minimum(np.exp(location + lengths.spread * normals), lengths.cap)


@pytest.mark.parametrize("case", CASES)
def test_moments_truncation_and_the_longest_against_monte_carlo(case: tuple[float, int, float]) -> None:
    lengths = ResponseLengths(*case)
    sample = draws_of(lengths, 400_000)
    assert sample.mean() == pytest.approx(lengths.mean, rel=0.02)
    assert lengths.mean_square == pytest.approx((sample**2).mean(), rel=0.03)
    assert lengths.truncated_share == pytest.approx((sample >= lengths.cap).mean(), abs=0.005)
    for draws in (2, 8, 64, 512):
        longest = sample[: draws * (sample.size // draws)].reshape(-1, draws).max(axis=1)
        assert lengths.longest_of(draws) == pytest.approx(longest.mean(), rel=0.04)


ANY_LENGTHS = st.builds(
    lambda cap, share, spread: ResponseLengths(share * cap, cap, spread),
    cap=st.integers(4, 65536),
    share=st.floats(0.005, 1.0),
    spread=st.floats(0, 3),
)


@given(lengths=ANY_LENGTHS, draws=st.floats(1, 1e6), factor=st.floats(1, 100))
def test_one_draw_is_the_mean_and_more_reach_further_up_to_the_cap(
    lengths: ResponseLengths, draws: float, factor: float
) -> None:
    assert lengths.longest_of(1) == lengths.mean
    few, many = lengths.longest_of(draws), lengths.longest_of(draws * factor)
    assert lengths.mean * (1 - 1e-9) <= few <= many + 1e-9 * lengths.cap
    assert many <= lengths.cap
    assert lengths.mean**2 * (1 - 1e-6) <= lengths.mean_square <= lengths.mean * lengths.cap * (1 + 1e-2)
    assert 0 <= lengths.truncated_share <= 1


def test_a_mean_at_the_cap_is_all_truncated_and_lengths_without_spread_are_alike() -> None:
    lengths = ResponseLengths(4096, 4096, 0.6)
    assert (lengths.longest_of(64), lengths.mean_square, lengths.truncated_share) == (4096, 4096**2, 1.0)
    alike = ResponseLengths(5, 8, 0.0)
    assert (alike.longest_of(1e6), alike.mean_square, alike.truncated_share) == (5, 25, 0.0)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("first", "last"), [(0.6975, 0.8371), (0.3, 0.3)])
def test_interrupted_lengths_against_monte_carlo(case: tuple[float, int, float], first: float, last: float) -> None:
    natural = ResponseLengths(*case)
    shortened = interrupted(natural, first, last)
    free = draws_of(natural, 400_000)
    places = natural.cap * np.random.default_rng(5).uniform(first, last, free.size)
    sample = np.where(free > places, places + REST_SHARE * natural.cap * (1 - last), free)
    assert shortened.mean == pytest.approx(sample.mean(), rel=0.02)
    assert shortened.mean_square == pytest.approx((sample**2).mean(), rel=0.03)
    longest = sample.reshape(-1, 64).max(axis=1).mean()
    assert shortened.longest_of(64) == pytest.approx(longest, rel=0.04)
    if isinstance(shortened, InterruptedLengths):
        assert shortened.interrupted_share == pytest.approx((free > places).mean(), abs=0.01)
        assert shortened.truncated_share == 0


@given(ANY_LENGTHS, st.floats(0.05, 0.9), st.floats(0, 1))
def test_an_interruption_never_makes_a_response_longer_than_the_last_one_and_its_rest(
    lengths: ResponseLengths, first: float, along: float
) -> None:
    last = first + along * (0.95 - first)
    shortened = interrupted(lengths, first, last)
    room = (1 - last) * REST_SHARE * lengths.cap
    assert 0 < shortened.mean <= max(last * lengths.cap + room, lengths.mean if lengths.fixed else 0) * (1 + 1e-9)
    assert shortened.mean**2 <= shortened.mean_square * (1 + 1e-9)
    many = shortened.longest_of(1e6)
    assert shortened.mean * (1 - 1e-9) <= many <= lengths.cap


def test_responses_that_all_end_before_are_as_they_were() -> None:
    lengths = ResponseLengths(5, 8, 0.0)
    assert interrupted(lengths, 0.7, 0.8) is lengths
    assert interrupted(lengths, 0.5, 0.5).mean == pytest.approx(4 + 2)


MODELS = ["Qwen3-8B", "Llama-3.1-8B-Instruct", "Qwen2.5-Math-7B"]


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("Qwen3-235B-A22B", "reasoning"),
        ("DeepSeek-R1-Distill-Qwen-1.5B", "reasoning"),
        ("gpt-oss-20b", "reasoning"),
        ("Qwen3-8B-Base", "base"),
        ("Qwen3-30B-A3B-Instruct-2507", "instruct"),
        ("gemma-2-2b-it", "instruct"),
        ("Qwen2.5-Math-7B", "base"),
        ("Qwen2.5-0.5B", "small base"),
    ],
)
def test_a_name_tells_what_kind_of_model_it_is(model: str, kind: str) -> None:
    assert kind_of(model) == kind


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("Qwen3-8B", "instruct"),
        ("QwQ-32B", "reasoning"),
        ("Qwen3-8B-Base", "base"),
        ("Llama-3.1-8B-Instruct", "instruct"),
    ],
)
def test_a_hybrid_model_that_may_not_think_answers_as_an_instruct_model(model: str, kind: str) -> None:
    assert kind_of(model, thinking=False) == kind


def test_several_turns_write_as_many_times_what_one_does_up_to_the_whole_response() -> None:
    one, ten, cut = (
        expected_length(MODELS[1], most, turns=Turns(count, most_tokens=512)).mean
        for count, most in ((1, 8192), (10, 8192), (10, 1000))
    )
    assert ten == pytest.approx(10 * one, rel=0.01)
    assert (one < expected_length(MODELS[1], 512).mean, 800 < cut < 1000) == (True, True)


@given(model=st.sampled_from(MODELS), cap=st.floats(64, 65_536), rate=st.floats(0, 0.99))
@example(model="Qwen3-8B", cap=68.0, rate=0.0)  # rounding alone would put its mean above the cap
def test_an_expected_mean_grows_with_the_cap_below_it_and_with_the_difficulty(
    model: str, cap: float, rate: float
) -> None:
    tight, wide = expected_length(model, cap), expected_length(model, 2 * cap)
    assert 0 < tight.mean <= cap
    assert tight.mean <= wide.mean
    assert 0 <= tight.log_sd <= wide.log_sd
    harder, easier = (expected_length(model, cap, each) for each in (rate, min(1.0, rate + 0.01)))
    assert easier.mean <= harder.mean <= cap
    assert expected_length(model, cap, 0.5).mean == tight.mean
