import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.expected_lengths import expected_length, kind_of

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


@given(model=st.sampled_from(MODELS), cap=st.floats(64, 65_536))
def test_an_expected_mean_lies_below_the_cap_and_grows_with_it(model: str, cap: float) -> None:
    tight, wide = expected_length(model, cap), expected_length(model, 2 * cap)

    assert 0 < tight.mean <= cap
    assert tight.mean <= wide.mean
    assert 0 <= tight.log_sd <= wide.log_sd


@given(model=st.sampled_from(MODELS), cap=st.floats(64, 65_536), rate=st.floats(0, 0.99))
def test_harder_problems_get_longer_responses(model: str, cap: float, rate: float) -> None:
    harder, easier = (expected_length(model, cap, each) for each in (rate, min(1.0, rate + 0.01)))

    assert easier.mean <= harder.mean <= cap
    assert expected_length(model, cap, 0.5).mean == expected_length(model, cap).mean
