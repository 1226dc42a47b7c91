from dataclasses import replace
from typing import Any

import pytest

from budgets.errors import InputError
from budgets.workload import RecipeTraits, Validation
from tests.budgets.workloads import workload_of


def test_prompt_and_response_stay_within_the_context() -> None:
    assert workload_of(cap=40960 - 256).longest_sequence == 40960
    with pytest.raises(InputError, match=r"context of qwen3-8b, 40,960: a response may have at most 40,704 tokens"):
        workload_of(cap=40960 - 255)
    with pytest.raises(InputError, match="exceed the context of qwen3-8b, 40,960: no response has room beside it"):
        workload_of(prompt=50_000)
    with pytest.raises(InputError, match="prompts of 0 tokens: it must be positive"):
        workload_of(prompt=0)
    with pytest.raises(InputError, match="a prompt set of 0"):
        replace(workload_of(), prompt_set_size=0)
    with pytest.raises(InputError, match="each must be at least 1"):
        Validation(300, 0, 20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate_schedule": "cosine"}, "schedule 'cosine', which depends on the run's length"),
        ({"staleness_bound": -1}, "staleness bound -1 must be at least 0"),
        ({"updates_per_batch": 0}, "updates per batch 0 at least 1"),
        ({"interrupted_from": 0.5}, "from 0.5 to None of the longest"),
        ({"interrupted_from": 0.5, "interrupted_until": 0.4}, "from 0.5 to 0.4 of the longest"),
    ],
)
def test_recipes_that_cannot_be_swept(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        RecipeTraits("mine", **change)


@pytest.mark.parametrize(("rollouts_per_step", "steps"), [(32, 64), (1024, 2), (5000, 1)])
def test_validation_by_rollouts_scores_every_batch_alike(rollouts_per_step: int, steps: int) -> None:
    assert Validation(128, 4, 5, every_rollouts=2048).steps_between(rollouts_per_step) == steps
    assert Validation(128, 4, 5).steps_between(rollouts_per_step) == 5
