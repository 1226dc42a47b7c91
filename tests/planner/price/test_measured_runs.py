import math
from typing import Any

import pytest

from budgets.errors import InputError
from budgets.memory import Placement
from planner.price.measured_runs import measured_run

ROW = {
    "row_id": "mine",
    "framework": "verl",
    "model": "Qwen3-8B",
    "model_shape": "qwen3-8b",
    "gpu_kind": "h100",
    "gpu_count": "16",
    "mode": "colocated_sync",
    "rollouts_per_prompt": "16",
    "prompts_per_batch": "64",
    "optimizer_updates_per_step": "4",
    "mean_prompt_tokens": "100",
    "max_response_tokens": "4096",
    "mean_response_tokens": "1500",
    "reference_pass": "no",
    "old_logprob_pass": "yes",
    "rollout_parallel": "tp2",
    "seconds_per_step": "120",
    "generate_seconds": "60",
}


def test_a_row_is_read_as_it_is_written() -> None:
    run = measured_run(ROW)
    assert (run.trainer, run.rollouts_per_prompt, run.prompts_per_update, run.engine_gpus) == ("verl", 16, 16, 2)
    assert (run.traits.updates_per_batch, run.traits.old_log_probs, run.traits.reference_pass) == (4, True, False)
    assert run.workload.responses.mean == 1500
    assert run.length_log_sd == 0
    assert run.placement == Placement(16, 16, colocated=True)
    assert dict(run.seconds_by_column) == {"generate_seconds": 60}
    assert run.notes == ()


def test_a_step_of_a_table_is_a_batch_whatever_its_updates() -> None:
    once, four = (measured_run({**ROW, "optimizer_updates_per_step": updates}) for updates in ("1", "4"))
    assert four.batch_seconds() == pytest.approx(4 * four.cost().step_seconds)
    # The same rollouts, generated and trained on once: what is paid once a batch stays the same.
    assert four.batch_seconds() == pytest.approx(once.batch_seconds(), rel=0.01)


@pytest.mark.parametrize(
    ("blank", "note"),
    [
        ("mean_prompt_tokens", "prompts taken to have 128 tokens"),
        ("optimizer_updates_per_step", "one update a batch"),
        ("old_logprob_pass", "old_logprob_pass taken as yes"),  # verl always does
        ("reference_pass", "reference_pass taken as no"),
        ("mean_response_tokens", "mean response of 3,916 tokens expected of a reasoning model"),
    ],
)
def test_what_is_blank_is_assumed_and_said(blank: str, note: str) -> None:
    run = measured_run({**ROW, blank: ""})
    assert run.notes == (note,)
    assert run.batch_seconds() > 0


def test_an_assumed_length_widens_the_interval() -> None:
    one_node = {**ROW, "gpu_count": "8"}
    known, assumed = measured_run(one_node), measured_run({**one_node, "mean_response_tokens": ""})
    assert assumed.length_log_sd > known.length_log_sd == 0
    assert assumed.cost(assumed.coefficients).log_sd > known.cost(known.coefficients).log_sd


def test_a_length_follows_from_published_throughput() -> None:
    tokens = {"mean_response_tokens": "", "tokens_per_second_per_gpu": "1000", "rollouts_per_step": "1024"}
    run = measured_run({**ROW, **tokens})
    assert run.workload.responses.mean == pytest.approx(1000 * 120 * 16 / 1024 - 100)
    assert run.length_log_sd == 0
    assert "from the published tokens per second" in run.notes[0]


@pytest.mark.parametrize(
    ("change", "placement", "staleness"),
    [
        ({"mode": "split_async", "generator_gpus": "8", "trainer_gpus": "8"}, Placement(8, 8, colocated=False), 1),
        ({"mode": "split_async", "staleness_steps": "3"}, None, 3),
        ({"mode": "split_sync", "generator_gpus": "8", "trainer_gpus": "8"}, Placement(8, 8, colocated=False), 0),
    ],
)
def test_splits_are_as_published_or_the_best(change: dict[str, str], placement: Any, staleness: int) -> None:
    run = measured_run({**ROW, **change})
    assert run.placement == placement
    assert run.traits.staleness_bound == staleness
    assert run.cost().placement.generator_gpus >= 1


def test_a_model_over_nodes_is_priced_with_the_engine_that_ran() -> None:
    large = {"model_shape": "deepseek-v3~", "gpu_count": "128", "gpu_kind": "gb200", "rollout_parallel": "tp32"}
    run = measured_run({**ROW, **large})
    assert run.workload.model.name == "deepseek-v3"
    assert run.cost().placement.engine_gpus == 32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gpu_count": ""}, "no gpu_count is given"),
        ({"gpu_count": "2.5"}, "gpu_count is 2.5: a whole number"),
        ({"model_shape": ""}, "no model_shape is given"),
        ({"mode": "colocated_async"}, "mode 'colocated_async' is not priced"),
        ({"mode": "split_sync"}, "needs generator_gpus and trainer_gpus"),
        ({"rollouts_per_prompt": ""}, "rollouts_per_prompt, and prompts_per_batch or rollouts_per_step, are needed"),
        ({"reference_pass": "maybe"}, "reference_pass is 'maybe': yes or no is needed"),
        ({"seconds_per_step": "fast"}, "seconds_per_step is 'fast': a number"),
        ({"mean_response_tokens": "", "max_response_tokens": ""}, "neither mean_response_tokens nor max"),
    ],
)
def test_what_cannot_be_priced_says_why(change: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        measured_run({**ROW, **change})


def test_a_trainer_that_is_known_is_priced_by_its_factor() -> None:
    costs = {name: measured_run({**ROW, "framework": name}).cost() for name in ("verl", "verl (a fork)", "unheard-of")}
    assert costs["verl"] == costs["verl (a fork)"]
    assert costs["unheard-of"].log_sd > costs["verl"].log_sd
    assert costs["verl"].step_seconds != costs["unheard-of"].step_seconds
    assert math.isfinite(costs["verl"].log_sd)


def test_a_row_says_how_it_was_executed() -> None:
    given = {"precision": "fp8", "packing": "no", "micro_batch": "8", "lora_rank": "16", "seconds_per_reward": "2"}
    execution = measured_run({**ROW, **given, "rewards_at_once": "64"}).traits.execution
    mixed = measured_run({**ROW, "precision": "bf16", "rollout_precision": "fp8"}).traits.execution
    assert (execution.fp8_rollouts, execution.fp8_training) == (True, True)
    assert (mixed.fp8_rollouts, mixed.fp8_training) == (True, False)
    assert (execution.packing, execution.micro_batch) == (False, 8)
    assert (execution.lora_rank, execution.sends_adapters) == (16, True)
    assert (execution.reward_seconds, execution.reward_parallel) == (2, 64)
