"""What scripts say of a run, as people write them for each trainer."""

from pathlib import Path

from planner.adopting.script import read_script
from tests.planner.curves.reading_samples import write

VERL = """#!/bin/bash
set -x
MODEL=${MODEL:-Qwen/Qwen3-8B}
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo data.train_batch_size=256 data.max_prompt_length=512 data.max_response_length=4096 \\
    actor_rollout_ref.rollout.n=8 actor_rollout_ref.model.path=$MODEL actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
    actor_rollout_ref.actor.fsdp_config.param_offload=True actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 trainer.nnodes=2 trainer.test_freq=5 trainer.save_freq=-1 $@
"""


def test_what_is_said_and_what_the_trainer_takes_are_told_apart(tmp_path: Path) -> None:
    facts = read_script([write(tmp_path / "run_grpo.sh", VERL)])
    settings = facts.settings
    assert facts.trainer == "verl"
    assert (settings.rollouts_per_prompt, settings.prompts_per_batch, settings.gpus) == (8, 256, 16)
    assert (settings.model, settings.response_tokens) == ("Qwen/Qwen3-8B", 4096)
    expected = {"prompt_tokens": 512, "updates_per_batch": 4, "parameter_offload": True, "micro_batch_sequences": 4}
    assert expected.items() <= facts.values.items()
    assert (facts.values["validation_every"], facts.values["save_every"]) == (5, 0)  # 0: never
    assert facts.keys["prompts_per_batch"] == "data.train_batch_size"
    assert facts.assumed["learning_rate"] == settings.learning_rate == 1e-6
    assert "learning_rate" not in facts.keys
