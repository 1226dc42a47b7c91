from collections.abc import Callable
from typing import Any

import pytest

from budgets.errors import InputError
from budgets.workload import RecipeTraits, Validation, Workload
from tests.budgets.traits import TRAITS

Build = Callable[..., Workload]


def test_validation_counts_its_answers() -> None:
    assert Validation(1000, 16, 100).rollouts == 16_000


@pytest.mark.parametrize("numbers", [(0, 4, 20), (300, 0, 20), (300, 4, 0)])
def test_validation_is_never_empty(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(InputError, match="each must be at least 1"):
        Validation(*numbers)


def test_another_mean_response_changes_nothing_else(workload_of: Build) -> None:
    workload = workload_of()
    longer = workload.with_mean_response(5000)
    assert longer.responses.mean == 5000
    assert longer.with_mean_response(workload.responses.mean) == workload


@pytest.mark.parametrize("prompt", [0, -1, float("nan")])
def test_prompts_have_tokens(workload_of: Build, prompt: float) -> None:
    with pytest.raises(InputError, match="it must be positive"):
        workload_of(prompt=prompt)


def test_the_prompt_set_is_not_empty(workload_of: Build) -> None:
    from dataclasses import replace

    with pytest.raises(InputError, match="a prompt set of 0"):
        replace(workload_of(), prompt_set_size=0)


def test_prompt_and_response_stay_within_the_context(workload_of: Build) -> None:
    assert workload_of(cap=40960 - 256).longest_sequence == 40960
    with pytest.raises(InputError, match=r"context of qwen3-8b, 40,960: a response may have at most 40,704 tokens"):
        workload_of(cap=40960 - 255)


@pytest.mark.parametrize(
    ("name", "asynchronous"), [("grpo", False), ("dapo", False), ("scalerl", True), ("magistral", True)]
)
def test_only_a_staleness_bound_makes_a_recipe_asynchronous(name: str, asynchronous: bool) -> None:
    assert TRAITS[name].asynchronous is asynchronous


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
