"""Settings of runs, from whatever a folder has of them."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.logs.trainers import load_trainer, trainer_names
from planner.scripts.arguments import Start, arguments_of, keys_of
from planner.scripts.configuration import configuration_of
from planner.scripts.facts import facts_of
from planner.scripts.settings import Settings
from tests.planner.curves.reading_samples import write

SCRIPT = """#!/bin/bash
set -x
N=${N:-8}
export BATCH=64
# data.train_batch_size=7 is what it was before
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo data.train_batch_size=$BATCH \\
    actor_rollout_ref.rollout.n=${N} actor_rollout_ref.actor.optim.lr=1e-6 \\
    actor_rollout_ref.model.path=Qwen/Qwen3-8B actor_rollout_ref.actor.ppo_mini_batch_size=32 \\
    +actor_rollout_ref.rollout.val_kwargs.n=4 trainer.n_gpus_per_node=8 trainer.nnodes=2 "$@"
"""
VERL = Settings(8, 64, 1e-6, "Qwen/Qwen3-8B", "grpo", 16, None, None, 4, ("2 updates a batch (32 of 64 prompts each)",))


def read(folder: Path, trainer: str) -> Settings:
    return facts_of(trainer, configuration_of(folder)).settings


def test_hydras_files_are_the_last_word(tmp_path: Path) -> None:
    write(tmp_path / "run_grpo.sh", SCRIPT)
    overrides = ["actor_rollout_ref.rollout.n=16", "actor_rollout_ref.actor.optim.lr=2e-6", "~trainer.nothing"]
    write(tmp_path / ".hydra" / "overrides.yaml", "".join(f"- {each}\n" for each in overrides))
    found = read(tmp_path, "verl")
    assert (found.rollouts_per_prompt, found.learning_rate, found.prompts_per_batch) == (16, 2e-6, 64)


HYDRA = """
data: {train_batch_size: 128, max_response_length: 4096, seed: 3}
actor_rollout_ref:
  rollout: {n: 4}
  model: {path: /models/qwen3-8b}
  actor: {optim: {lr: 1e-6}, policy_loss: {loss_mode: gspo}}
trainer: {nnodes: 1, n_gpus_per_node: 4}
"""
OLD_OPENRLHF = """python -m openrlhf.cli.train_ppo_ray --n_samples_per_prompt 8 --rollout_batch_size 128 \\
  --train_batch_size 1024 --actor_learning_rate 5e-7 --pretrain Qwen/Qwen3-8B --actor_num_nodes 1 \\
  --actor_num_gpus_per_node 8 --vllm_num_engines 4 --colocate_all_models --advantage_estimator group_norm
"""
TRL = """{"num_generations": 8, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 16, "world_size": 2,
"learning_rate": 1e-6, "seed": 42, "loss_type": "dapo", "max_completion_length": 512,
"model_name_or_path": "Qwen/Qwen3-0.6B"}"""
SKYRL = """
generator: {n_samples_per_prompt: 5, inference_engine: {num_engines: 4}}
trainer:
  train_batch_size: 32
  policy: {optimizer_config: {lr: 1e-6}, model: {path: m}}
  placement: {policy_num_nodes: 1, policy_num_gpus_per_node: 4, colocate_all: false}
  algorithm: {advantage_estimator: grpo, grpo_norm_by_std: false}
"""
NEMO_RL = """
grpo: {num_generations_per_prompt: 16, num_prompts_per_step: 32, use_dynamic_sampling: true}
policy: {model_name: m, optimizer: {kwargs: {lr: 5e-6}}}
cluster: {num_nodes: 2, gpus_per_node: 8}
"""
AREAL = """
gconfig: {n_samples: 4}
train_dataset: {batch_size: 256}
actor: {optimizer: {lr: 1e-6}, path: m}
cluster: {n_nodes: 1, n_gpus_per_node: 8}
"""
SLIME = """python3 train.py --n-samples-per-prompt 8 --rollout-batch-size 32 --global-batch-size 256 --lr 1e-6 \\
  --hf-checkpoint /m --actor-num-gpus-per-node 4 --rollout-num-gpus 4 --advantage-estimator gspo
"""


@pytest.mark.parametrize(
    ("trainer", "file", "text", "expected"),
    [
        ("verl", "run_grpo.sh", SCRIPT, VERL),
        ("verl", ".hydra/config.yaml", HYDRA, Settings(4, 128, 1e-6, "/models/qwen3-8b", "gspo", 4, 3, 4096)),
        ("openrlhf", "run.sh", OLD_OPENRLHF, Settings(8, 128, 5e-7, "Qwen/Qwen3-8B", "grpo", 8)),
        ("trl", "training_args.json", TRL, Settings(8, 16, 1e-6, "Qwen/Qwen3-0.6B", "dapo", 2, 42, 512)),
        ("skyrl", "config.yaml", SKYRL, Settings(5, 32, 1e-6, "m", "dr-grpo", 8)),
        ("nemo-rl", "config.yaml", NEMO_RL, Settings(16, 32, 5e-6, "m", "dapo", 16)),
        ("areal", "config.yaml", AREAL, Settings(4, 256, 1e-6, "m", None, 8)),
        ("slime", "run.sh", SLIME, Settings(8, 32, 1e-6, "/m", "gspo", 8)),
    ],
)
def test_each_trainers_settings_are_read_as_it_writes_them(
    tmp_path: Path, trainer: str, file: str, text: str, expected: Settings
) -> None:
    write(tmp_path / file, text)
    assert read(tmp_path, trainer) == expected


def test_our_own_names_serve_for_any_trainer(tmp_path: Path) -> None:
    own = {"rollouts_per_prompt": 4, "prompts_per_batch": 8, "learning_rate": 1e-5, "model": "m", "gpus": 2}
    write(tmp_path / "settings.json", json.dumps(own))
    assert read(tmp_path, "areal") == Settings(4, 8, 1e-5, "m", None, 2)
    assert facts_of(None, configuration_of(tmp_path)).settings.missing() == []


def test_what_is_printed_at_the_beginning_of_a_log(tmp_path: Path) -> None:
    prefix = "\x1b[36m(main_task pid=9)\x1b[0m "
    lines = [
        'bash run.sh "data.train_batch_size=256 actor_rollout_ref.rollout.n=2"',
        prefix + "{'actor_rollout_ref': {'actor': {'optim': {'lr': 2e-06}},",
        prefix + "                       'model': {'path': 'Qwen/Qwen2.5-0.5B-Instruct'}},",
        prefix + " 'data': {'train_batch_size': 256}}",
        "step:1 - critic/score/mean:0.1",
    ]
    log = write(tmp_path / "run.log", "\n".join(lines))
    found = facts_of("verl", configuration_of(log, log=log)).settings
    assert (found.rollouts_per_prompt, found.prompts_per_batch, found.learning_rate) == (2, 256, 2e-6)
    assert found.model == "Qwen/Qwen2.5-0.5B-Instruct"


def test_a_lone_log_has_the_settings_of_its_name(tmp_path: Path) -> None:
    for name, n in (("a", 4), ("b", 8)):
        write(tmp_path / f"{name}.log", "step:1 - critic/score/mean:0.1\n")
        write(tmp_path / f"{name}.json", json.dumps({"rollouts_per_prompt": n}))
    assert configuration_of(tmp_path / "b.log") == {"rollouts_per_prompt": 8}


def test_what_is_missing_is_named_by_its_flags() -> None:
    names = ["--rollouts-per-prompt", "--prompts-per-batch", "--learning-rate", "--model", "--gpus"]
    assert facts_of("verl", {}).settings.missing() == names
    assert facts_of("verl", {}, {"gpus": 8, "model": None}).settings.missing() == names[:-1]


def test_settings_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(InputError, match=r"100 rollouts a batch are no multiple of 8 .*--prompts-per-batch"):
        facts_of("prime-rl", {"orchestrator.batch_size": 100, "orchestrator.group_size": 8})


@pytest.mark.parametrize(("name", "text"), [("a.toml", "a = ["), ("a.json", "{"), ("a.yaml", "a: [")])
def test_a_broken_file_is_named(tmp_path: Path, name: str, text: str) -> None:
    write(tmp_path / name, text)
    with pytest.raises(InputError, match=f"{name}' is not what its name says"):
        configuration_of(tmp_path)


STARTS = st.builds(Start, st.integers(2, 512), st.integers(1, 2048), st.integers(1, 10_000), st.floats(1e-8, 1e-3))


@pytest.mark.parametrize("name", trainer_names())
@given(start=STARTS)
def test_what_is_written_is_read_again(name: str, start: Start) -> None:
    read = facts_of(name, dict(keys_of(load_trainer(name), start))).settings
    assert (read.rollouts_per_prompt, read.prompts_per_batch) == (start.rollouts_per_prompt, start.prompts_per_batch)
    assert (read.learning_rate, read.notes) == (start.learning_rate, ())


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("verl", "actor_rollout_ref.rollout.n=16"),
        ("slime", "--global-batch-size 1024"),
        ("prime-rl", "--orchestrator.batch_size 1024"),
        ("trl", "--learning_rate 1.5e-06"),
    ],
)
def test_they_are_written_as_the_trainer_s_command_line_has_them(name: str, line: str) -> None:
    assert line in arguments_of(load_trainer(name), Start(16, 64, 1500, 1.5e-6))


def test_several_updates_a_batch_and_another_recipe_are_said_too() -> None:
    start = Start(16, 64, 1500, 1e-6, updates_per_batch=4, recipe="gspo")
    keys = dict(keys_of(load_trainer("verl"), start))
    assert keys["data.train_batch_size"] == 4 * keys["actor_rollout_ref.actor.ppo_mini_batch_size"] == 256
    assert keys["trainer.total_training_steps"] == 375
    assert keys["actor_rollout_ref.actor.policy_loss.loss_mode"] == "gspo"
    assert "4 updates a batch" in facts_of("verl", keys).settings.notes[0]
    assert dict(keys_of(load_trainer("trl"), start))["max_steps"] == 1500
