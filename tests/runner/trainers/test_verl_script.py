"""A script that starts verl already becomes options of the driver; what the plan decides is listed."""

from pathlib import Path

import pytest

from budgets.errors import InputError
from planner.config.trainer import TrainerChoice
from runner.trainers.verl.script import read_script, with_script

SCRIPT = r"""#!/usr/bin/env bash
set -x
export MODEL=${MODEL:-Qwen/Qwen3-8B}  # given from outside
data=$HOME/data
n_gpus=8
offload=False

python3 -m verl.trainer.main_ppo --config-path=config \
    data.train_files="$data/gsm8k/train.parquet" \
    data.train_batch_size=1024 \
    actor_rollout_ref.model.path=$MODEL \
    actor_rollout_ref.model.enable_gradient_checkpointing=True \
    actor_rollout_ref.actor.fsdp_config.param_offload=${offload} \
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6 \
    actor_rollout_ref.rollout.max_num_batched_tokens=16384 \
    actor_rollout_ref.actor.checkpoint.save_contents=['model','optimizer','extra'] \
    +actor_rollout_ref.model.override_config.attn_implementation=eager \
    trainer.logger='["console","wandb"]' \
    trainer.n_gpus_per_node=$n_gpus $@
"""


def written(text: str, folder: Path) -> Path:
    path = folder / "run_grpo.sh"
    path.write_text(text)
    return path


def test_what_it_sets_is_kept_and_what_the_plan_decides_is_listed(tmp_path: Path) -> None:
    script = read_script(written(SCRIPT, tmp_path))

    assert script.settings == {
        "actor_rollout_ref.model.enable_gradient_checkpointing": True,
        "actor_rollout_ref.actor.fsdp_config.param_offload": False,
        "actor_rollout_ref.rollout.max_num_batched_tokens": 16384,
        "actor_rollout_ref.actor.checkpoint.save_contents": ["model", "optimizer", "extra"],
        "+actor_rollout_ref.model.override_config.attn_implementation": "eager",
        "trainer.logger": ["console", "wandb"],
    }
    assert script.options == {"tensor_parallel": 2, "rollout_memory": 0.6}
    assert script.replaced == {
        "data.train_files": "$HOME/data/gsm8k/train.parquet",
        "data.train_batch_size": "1024",
        "actor_rollout_ref.model.path": "Qwen/Qwen3-8B",
        "trainer.n_gpus_per_node": "8",
    }
    kept, replaced = script.notes()
    assert "param_offload" in kept
    assert "data.train_batch_size (it says 1024)" in replaced


def test_what_the_configuration_says_itself_wins(tmp_path: Path) -> None:
    settings = {"actor_rollout_ref.rollout.max_num_batched_tokens": 8192}
    own = TrainerChoice(name="verl", options={"tensor_parallel": 4, "settings": settings})
    changed = with_script(own, written(SCRIPT, tmp_path))
    assert changed is not None
    assert changed.options["tensor_parallel"] == 4
    assert changed.options["settings"]["actor_rollout_ref.rollout.max_num_batched_tokens"] == 8192
    assert changed.options["settings"]["actor_rollout_ref.model.enable_gradient_checkpointing"] is True
    with pytest.raises(InputError, match="goes with --trainer verl"):
        with_script(TrainerChoice(name="trl"), written(SCRIPT, tmp_path))


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("echo hello\n", "it starts no verl"),
        ("python -m verl.trainer.main_ppo trainer.balance_batch=$BALANCE\n", "a variable that the script does not set"),
        ("python -m verl.trainer.main_ppo 'trainer.balance_batch=True\n", "cannot be read"),
        ("python -m verl.trainer.main_ppo data.mm_processor_kwargs={a:1}\n", "give its parts one by one"),
    ],
)
def test_a_script_that_cannot_be_read_is_refused(text: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=named):
        read_script(written(text, tmp_path))
