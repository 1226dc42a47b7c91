"""What the drivers make of the memory: keys that hold the model, unless the user's own say otherwise, or a refusal."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InfeasibleError
from runner.ports.trial import Machine, TaskChoice, TrialConfig
from runner.trainers.catalogue import driver_of
from tests.runner.tasks.checkpoints import save_checkpoint
from tests.runner.trainers.standins import attempt, launched
from tests.runner.trainers.test_rendered_drivers import NAMED, rendered

Made = Callable[..., TrialConfig]
SHAPES = {  # of their config.json
    "8b": (4096, 36, 32, 8, 12288),
    "32b": (5120, 64, 64, 8, 25600),
    "72b": (8192, 80, 64, 8, 29568),
}


def shaped(folder: Path, size: str) -> str:
    """Return the folder of a model without weights, whose config.json is of such a size."""
    save_checkpoint(folder)
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size")
    config: dict[str, Any] = dict(zip(names, SHAPES[size], strict=True))
    config |= {"head_dim": 128, "tie_word_embeddings": False, "model_type": "qwen3"}
    config |= {"vocab_size": 151936, "max_position_embeddings": 40960}
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.fixture
def sized(tmp_path: Path, made: Made) -> Made:
    """Return what makes a trial of a trainer and a model of such a size, of 8 · 8 rollouts of 8,192 tokens."""
    (tmp_path / "sums.jsonl").write_text("".join(f'{{"prompt": "what is {k}", "answer": "4"}}\n' for k in range(30)))

    def make(trainer: str, size: str, gpus: int, tokens: int = 8192, **changes: Any) -> TrialConfig:
        model = shaped(tmp_path / size, size)
        task = TaskChoice(name=str(tmp_path / "sums.jsonl"), model=model, reward="exact", max_response_tokens=tokens)
        machine = Machine(gpus=gpus, nodes=max(1, gpus // 8), device="cuda", engine="vllm", weights="bfloat16")
        return made(trainer, task=task, machine=machine, rollouts_per_prompt=8, **changes)

    return make


@pytest.mark.parametrize(
    ("trainer", "gpus", "keys"),
    [
        (
            "trl",
            4,
            {
                "activation_checkpointing": True,
                "fsdp_offload": False,
                "vllm_enable_sleep_mode": True,
                "vllm_gpu_memory_utilization": 0.49,  # what 33 GB of states leave
            },
        ),
        (
            "verl",
            4,
            {
                "actor_rollout_ref.actor.fsdp_config.param_offload": "true",
                "actor_rollout_ref.actor.fsdp_config.offload_policy": "false",
                "actor_rollout_ref.rollout.gpu_memory_utilization": "0.6",
                "trainer.max_actor_ckpt_to_keep": "2",
            },
        ),
        ("verl", 8, {"actor_rollout_ref.actor.fsdp_config.param_offload": "false"}),
        ("openrlhf", 4, {"--ds.zero_stage": ["3"], "--actor.gradient_checkpointing_enable": []}),
        ("skyrl", 4, {"trainer.policy.sequence_parallel_size": 1, "trainer.gradient_checkpointing": True}),
        (
            "nemo-rl",
            4,
            {
                "policy.dtensor_cfg.activation_checkpointing": True,
                "policy.sequence_packing.train_mb_tokens": 16384,
                "policy.logprob_chunk_size": 2048,
            },
        ),
        (
            "slime",
            4,
            {
                "--recompute-granularity": ["full"],
                "--tensor-model-parallel-size": ["2"],
                "--sequence-parallel": [],
                "--sglang-mem-fraction-static": ["0.7"],
            },
        ),
        ("prime-rl", 8, {"inference.vllm.gpu_memory_utilization": 0.8, "trainer.model.cp": 1}),
    ],
)
def test_eight_billion_weights_are_held(
    trainer: str, gpus: int, keys: dict[str, Any], sized: Made, tmp_path: Path
) -> None:
    config = sized(trainer, "8b", gpus)
    driver_of(config).check(config)
    given = rendered(config, attempt(tmp_path))
    assert {name: given[name] for name in keys} == keys


OWN = {
    "trl": ("activation_checkpointing", False),
    "verl": ("actor_rollout_ref.model.use_fused_kernels", False),
    "openrlhf": ("ds.zero_stage", 2),
    "skyrl": ("trainer.policy.fsdp_config.cpu_offload", True),
    "nemo-rl": ("policy.dtensor_cfg.tensor_parallel_size", 2),
    "slime": ("--max-tokens-per-gpu", 9216),
    "prime-rl": ("trainer.model.cp", 2),
}


@pytest.mark.parametrize("trainer", NAMED)
def test_the_users_own_key_wins(trainer: str, sized: Made, tmp_path: Path) -> None:
    key, value = OWN[trainer]
    given = rendered(sized(trainer, "8b", 8, options={"settings": {key: value}}), attempt(tmp_path))
    found = given[f"--{key}" if trainer == "openrlhf" else key]
    assert found in (value, str(value).lower(), [str(value)])


@pytest.mark.parametrize("trainer", NAMED)
def test_what_cannot_fit_is_refused_with_what_would(trainer: str, sized: Made) -> None:
    config = sized(trainer, "72b", 2)
    with pytest.raises(
        InfeasibleError, match=rf"does not fit 2 GPUs of 80 GB with --trainer {trainer}: .* Use \d+ GPUs"
    ):
        driver_of(config).check(config)


def test_a_long_response_may_be_shortened_and_adapters_need_less(sized: Made) -> None:
    long = sized("openrlhf", "8b", 1, 30000)
    with pytest.raises(InfeasibleError, match=r"8b with 3\d,\d+ tokens .*, or \d+,\d+ tokens of a prompt"):
        driver_of(long).check(long)
    adapted = sized("verl", "32b", 2, options={"settings": {"actor_rollout_ref.model.lora_rank": 32}})
    driver_of(adapted).check(adapted)


def test_an_engine_that_spans_nodes_has_its_answers_scored(sized: Made, tmp_path: Path) -> None:
    config, begun = sized("openrlhf", "72b", 16, options={"tensor_parallel": 16}), attempt(tmp_path)
    assert rendered(config, begun)["--vllm.num_engines"] == ["1"]
    assert json.loads(launched(config, begun).files["reward.json"])["sharers"] == 1
