"""A script that starts a trainer already becomes options of its driver; what the plan decides is listed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from budgets.errors import InputError
from planner.config.trainer import TrainerChoice
from runner.ports.trial import TaskChoice, TrialConfig
from runner.trainers.catalogue import driver_of
from runner.trainers.keys import DecidedError
from runner.trainers.script import Script, read_script, require_known, without
from tests.runner.tasks.checkpoints import save_on_the_hub
from tests.runner.trainers.scripts import SCRIPTS, written
from tests.runner.trainers.standins import attempt, launched, trial

MODEL_LENGTH = "actor_rollout_ref.rollout.max_num_batched_tokens"

VERL = r"""#!/usr/bin/env bash
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
RUN = "run_grpo.sh"


def test_what_it_sets_is_kept_and_what_the_plan_decides_is_listed(tmp_path: Path) -> None:
    script = read_script(written(tmp_path, RUN, VERL))

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
        "data.train_batch_size": 1024,
        "actor_rollout_ref.model.path": "Qwen/Qwen3-8B",
        "trainer.n_gpus_per_node": 8,
    }
    kept, _, replaced, foreign = script.notes(script.settings, {"prompts_per_batch": 64})
    assert "param_offload" in kept
    assert "data.train_batch_size (1024 becomes 64)" in replaced
    assert "trainer.n_gpus_per_node (it says 8)" in replaced
    assert foreign.endswith("config_path")


def test_what_the_configuration_says_itself_wins(tmp_path: Path) -> None:
    settings = {"actor_rollout_ref.rollout.max_num_batched_tokens": 8192}
    own = TrainerChoice(name="verl", options={"tensor_parallel": 4, "settings": settings})
    script = read_script(written(tmp_path, RUN, VERL))
    changed = script.onto(own)
    assert changed.options["tensor_parallel"] == 4
    assert changed.options["settings"]["actor_rollout_ref.rollout.max_num_batched_tokens"] == 8192
    assert changed.options["settings"]["actor_rollout_ref.model.enable_gradient_checkpointing"] is True
    for other in (TrainerChoice(name="trl"), None):
        with pytest.raises(InputError, match="goes with --trainer verl"):
            script.onto(other)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("echo hello\n", "it starts none of nemo-rl, openrlhf"),
        ("python -m verl.trainer.main_ppo trainer.balance_batch=$BALANCE\n", "a variable that the script does not set"),
        ("python -m verl.trainer.main_ppo 'trainer.balance_batch=True\n", "cannot be read"),
        ("python -m verl.trainer.main_ppo data.mm_processor_kwargs={a:1}\n", "give its parts one by one"),
    ],
)
def test_a_script_that_cannot_be_read_is_refused(text: str, named: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=named):
        _whole(tmp_path, text)


def _whole(folder: Path, text: str) -> Script:
    script = read_script(written(folder, RUN, text))
    require_known(script, script.settings)
    return script


@pytest.mark.parametrize("trainer", SCRIPTS)
def test_every_trainer_trains_with_what_the_plan_leaves_open(
    trainer: str, tmp_path: Path, made: Callable[..., TrialConfig]
) -> None:
    given = SCRIPTS[trainer]
    script = read_script(written(tmp_path, given.name, given.text))
    assert script.trainer == trainer

    config = made(trainer)
    assert config.trainer is not None
    settings = script.onto(config.trainer).options["settings"]
    while True:
        changed = {**config.trainer.options, **script.options, "settings": settings}
        config = config.model_copy(update={"trainer": config.trainer.model_copy(update={"options": changed})})
        try:
            driver_of(config).check(config)
            break
        except DecidedError as error:
            settings = without(settings, error.keys, ())

    assert settings == given.kept
    assert given.replaced.items() <= {**script.replaced, **script.settings}.items()
    assert set(given.foreign) <= set(script.foreign)


STRANGERS = """#!/bin/bash
export WANDB_API_KEY=0123  # never stored: the machine's own is used
export NCCL_IB_HCA="mlx5_0,mlx5_1" NCCL_DEBUG=WARN
export PYTHONPATH=$PYTHONPATH:/opt/mine
NCCL_IB_GID_INDEX=3 python3 -m verl.trainer.main_ppo \\
    data.max_prompt_length=4096 data.max_response_length=2048 \\
    actor_rollout_ref.model.path=Qwen/Qwen3-8B \\
    actor_rollout_ref.rollout.max_num_batched_tokens=16384 \\
    trainer.logger='["console","wandb"]' trainer.project_name=theirs
"""


def test_a_strangers_script_is_verls_own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("WANDB_API_KEY", "4567")
    save_on_the_hub(tmp_path / "hub", "Qwen/Qwen3-8B", context=40960)
    rows = "".join(f'{{"prompt": "{"what " * (4093 - k)}", "answer": "4"}}\n' for k in range(30))
    (tmp_path / "long.jsonl").write_text(rows)
    judge = "https://judge.example/score"
    task = TaskChoice(name=str(tmp_path / "long.jsonl"), model="Qwen/Qwen3-8B", reward=judge, max_response_tokens=2048)
    script = read_script(written(tmp_path, RUN, STRANGERS))
    trainer = script.onto(TrainerChoice(name="verl", python="/opt/verl/bin/python"))
    assert trainer.secrets == ["WANDB_API_KEY"]  # and no value of it
    config = trial("verl", "grpo", task=task, trainer=trainer)
    launch = launched(config, attempt(tmp_path))
    keys = set(json.loads(launch.files["overrides.json"]))
    assert {"data.max_prompt_length=4096", "actor_rollout_ref.model.path=Qwen/Qwen3-8B"} <= keys
    assert {"trainer.logger=[console,wandb,file]", "trainer.project_name=theirs"} <= keys
    assert f"{MODEL_LENGTH}=16384" in keys
    assert json.loads(launch.files["reward.json"])["reward"]["reward"] == judge
    given = {"NCCL_IB_HCA": "mlx5_0,mlx5_1", "NCCL_DEBUG": "WARN", "NCCL_IB_GID_INDEX": "3"}
    assert given.items() <= launch.environment.items()
    assert "/opt/mine" not in launch.environment["PYTHONPATH"]
