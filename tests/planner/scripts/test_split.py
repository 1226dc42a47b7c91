"""How the GPUs of a run were used, as its settings have it."""

import pytest

from planner.scripts.configuration import Flat
from planner.scripts.facts import facts_of
from planner.scripts.settings import GpuSplit

SIZES = {"rollouts_per_prompt": 8, "prompts_per_batch": 64}


@pytest.mark.parametrize(
    ("trainer", "found", "expected"),
    [
        ("verl", {"actor_rollout_ref.actor.ppo_mini_batch_size": 32}, GpuSplit(updates=2)),
        (
            "verl",
            {"rollout.nnodes": 1, "rollout.n_gpus_per_node": 4, "trainer.n_gpus_per_node": 12},
            GpuSplit(4, asynchronous=True),
        ),
        ("verl", {"rollout.nnodes": 0, "rollout.n_gpus_per_node": 8}, GpuSplit()),
        ("prime-rl", {"deployment.num_infer_gpus": 6, "deployment.num_train_gpus": 2}, GpuSplit(6, asynchronous=True)),
        (
            "openrlhf",
            {"vllm_num_engines": 4, "vllm_tensor_parallel_size": 2, "async_train": True},
            GpuSplit(8, 2, True),
        ),
        (
            "openrlhf",
            {"vllm_num_engines": 4, "colocate_all_models": True, "train_batch_size": 256},
            GpuSplit(updates=2),
        ),
        ("skyrl", {"generator.inference_engine.num_engines": 4}, GpuSplit()),
        (
            "skyrl",
            {"generator.inference_engine.num_engines": 4, "trainer.placement.colocate_all": False},
            GpuSplit(4),
        ),
        (
            "skyrl",
            {
                "generator.inference_engine.num_engines": 4,
                "trainer.placement.colocate_all": False,
                "trainer.fully_async.enabled": True,
            },
            GpuSplit(4, asynchronous=True),
        ),
        (
            "nemo-rl",
            {
                "policy.generation.colocated.enabled": False,
                "policy.generation.colocated.resources.gpus_per_node": 8,
                "policy.generation.colocated.resources.num_nodes": 1,
                "policy.generation.vllm_cfg.tensor_parallel_size": 4,
                "grpo.async_grpo.enabled": True,
            },
            GpuSplit(8, 4, True),
        ),
        ("nemo-rl", {"policy.generation.colocated.resources.gpus_per_node": 8}, GpuSplit()),
        ("slime", {"colocate": True, "rollout_num_gpus": 8, "rollout_num_gpus_per_engine": 2}, GpuSplit(engine_gpus=2)),
        (None, {"rollout_num_gpus": 8}, GpuSplit()),
    ],
)
def test_a_trainers_keys_say_how_its_gpus_are_used(trainer: str | None, found: Flat, expected: GpuSplit) -> None:
    assert facts_of(trainer, SIZES | found).split == expected


def test_gpus_that_generate_alone_are_gpus_of_the_run() -> None:
    found = {"rollout.nnodes": 1, "rollout.n_gpus_per_node": 4, "trainer.nnodes": 1, "trainer.n_gpus_per_node": 12}
    gpus = facts_of("verl", found).settings.gpus
    assert gpus == 16
    assert facts_of("verl", SIZES | found).split.of(gpus) == (4, 12, False)


def test_an_asynchronous_openrlhf_generates_on_gpus_of_its_own_whatever_it_colocates() -> None:
    found = {"colocate_all_models": True, "async_train": True, "vllm_num_engines": 4, "actor_num_gpus_per_node": 4}
    assert facts_of("openrlhf", found).settings.gpus == 8
    assert facts_of("openrlhf", SIZES | found).split == GpuSplit(4, asynchronous=True)


@pytest.mark.parametrize("gpus", [4, 3])
def test_a_split_that_does_not_fit_the_gpus_is_none(gpus: int) -> None:
    assert GpuSplit(4).of(gpus) == (gpus, gpus, True)
