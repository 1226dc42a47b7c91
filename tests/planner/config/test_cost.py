from dataclasses import replace
from typing import Any

import pytest

from budgets.errors import ConfigError
from budgets.execution import USUAL, Execution
from planner.config import Layer, Resolved, build_request, build_step, resolve


def resolved(**sections: dict[str, Any]) -> Resolved:
    return resolve([Layer("test", {"budget": {"gpu_hours": 5000.0}, **sections})])


def executed(**sections: dict[str, Any]) -> Execution:
    return build_step(resolved(**sections))[2].execution


def test_the_section_reaches_every_command_that_prices() -> None:
    cost = {
        "packing": False,
        "micro_batch": 8,
        "lora_rank": 16,
        "rollout_precision": "fp8",
        "training_precision": "fp8",
    }
    usual = replace(USUAL, save_seconds=600.0)
    wanted = replace(usual, packing=False, micro_batch=8, lora_rank=16, fp8_rollouts=True, fp8_training=True)
    assert executed(cost=cost) == wanted
    request = build_request(resolved(cost=cost, axes={"recipes": ["easy", "scalerl"]}))
    assert [variant.traits.execution for variant in request.all_variants] == [wanted, wanted]
    assert executed() == usual
    assert executed(trainer={"save_seconds": 60}).save_seconds == 60


@pytest.mark.parametrize(
    ("reward", "seconds", "parallel"),
    [
        ({"reward": "judge", "reward_seconds": 30.0}, 30.0, 256),
        ({"reward": "sandbox", "reward_parallel": 8}, 1.0, 8),
        ({"reward_seconds": 0.01, "reward_parallel": 16}, 0.01, 16),
        ({"turns": 4, "tool_seconds": 0.5, "reward_seconds": 0.25}, 2.25, 256),
    ],
)
def test_a_kind_of_reward_has_seconds_which_can_be_given(reward: dict[str, Any], seconds: float, parallel: int) -> None:
    execution = executed(cost=reward)
    assert (execution.reward_seconds, execution.reward_parallel) == (seconds, parallel)


@pytest.mark.parametrize(("trainer", "sends"), [("verl", True), ("prime-rl", True), ("trl", False)])
def test_whether_adapters_are_sent_alone_depends_on_the_trainer(trainer: str, sends: bool) -> None:
    assert executed(cost={"lora_rank": 32}, trainer={"name": trainer}).sends_adapters is sends


@pytest.mark.parametrize("cost", [{"packing": False}, {"rollout_precision": "fp8"}])
def test_our_own_trainer_on_a_cpu_refuses_what_it_does_not_do(cost: dict[str, Any]) -> None:
    tiny = {"hardware": {"gpu": "cpu", "gpus": 2}}
    with pytest.raises(ConfigError, match="on cpu our own trains all"):
        executed(cost=cost, **tiny)
    assert executed(cost={"reward_seconds": 0.5}, **tiny).reward_seconds == 0.5
