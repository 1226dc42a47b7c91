"""What scripts say of a run, as people write them for each trainer."""

from pathlib import Path
from typing import Any

import pytest

from budgets.errors import InputError
from planner.scripts.script import read_script
from tests.planner.curves.reading_samples import write
from tests.security.limits import limited

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


OTHERS: dict[str, tuple[str, str, tuple[Any, ...], dict[str, Any]]] = {
    "openrlhf": (
        "run.sh",
        """N=8
ray job submit --runtime-env-json='{"working_dir": "/x"}' -- python3 -m openrlhf.cli.train_ppo_ray \\
  --rollout.n_samples_per_prompt $N --rollout.batch_size 128 --train.batch_size 1024 --data.max_len 4096 \\
  --actor.model_name_or_path org/m --actor.num_gpus_per_node 8 --train.colocate_all --ds.zero_stage 3 \\
  --vllm.num_engines 4 --vllm.tensor_parallel_size 2 --actor.eps_clip_low_high 0.2 0.28
""",
        (8, 128, 1e-6, "org/m", 8, 4096),
        {"sharding": "zero3", "clip_low": 0.2, "clip_high": 0.28, "lr_schedule": "cosine", "updates_per_batch": 1},
    ),
    "skyrl": (
        "run.sh",
        """: "${GPUS:=4}"
uv run --isolated -m skyrl.train.entrypoints.main_base trainer.policy.model.path="org/m" \\
  trainer.placement.policy_num_gpus_per_node=$GPUS trainer.train_batch_size=256 trainer.policy_mini_batch_size=128 \\
  trainer.max_prompt_length=512 trainer.eval_interval=20 "$@"
""",
        (5, 256, 1e-6, "org/m", 4, 1024),
        {"validation_every": 20, "updates_per_batch": 2, "prompt_tokens": 512, "resume": True},
    ),
    "prime-rl": (
        "rl.toml",
        """max_steps = 100
seq_len = 2048
model.name = "org/m"
orchestrator = {batch_size = 256, group_size = 16}
deployment = {type = "multi_node", num_train_nodes = 1, num_infer_nodes = 2}
""",
        (16, 16, 1e-6, "org/m", 24, 2048),
        {"update_steps": 100, "staleness": 8},
    ),
    "nemo-rl": (
        "own.yaml",
        """defaults: base.yaml
policy: {model_name: org/m, generation: {max_new_tokens: "${policy.max_total_sequence_length}"}}
""",
        (16, 64, 5e-7, "org/m", 16, 8192),
        {"sharding": "megatron", "train_tensor_parallel": 2, "save_every": 0},
    ),
    "slime": (
        "run.sh",
        """ROLLOUT=(--rollout-batch-size 32 --n-samples-per-prompt 8
  # --num-rollout 10
  --rollout-max-response-len 8192)
ray job submit -- python3 train.py --hf-checkpoint /root/m --actor-num-gpus-per-node 8 --colocate \\
  ${ROLLOUT[@]} --num-steps-per-rollout 2 --lr 1e-6 --use-dynamic-batch-size --max-tokens-per-gpu 9216
""",
        (8, 32, 1e-6, "/root/m", 8, 8192),
        {"micro_batch_tokens": 9216, "updates_per_batch": 2, "sharding": "megatron"},
    ),
    "trl": (
        "train.py",
        """import argparse
from trl import GRPOConfig, GRPOTrainer
parser = argparse.ArgumentParser()
parser.add_argument("--prompts", type=int, default=16)
args = parser.parse_args()
settings = GRPOConfig(num_generations=8, per_device_train_batch_size=args.prompts, gradient_accumulation_steps=2 * 4,
    max_completion_length=1024, learning_rate=1e-5)
GRPOTrainer(model="org/m", args=settings, reward_funcs=print).train()
raise SystemExit(open("ran", "w"))
""",
        (8, 16, 1e-5, "org/m", 1, 1024),
        {"epochs": 3, "sharding": "ddp", "lr_schedule": "linear"},
    ),
}
BASE = """
grpo: {num_prompts_per_step: 64, num_generations_per_prompt: 16}
checkpointing: {enabled: false, save_period: 10}
policy:
  max_total_sequence_length: 8192
  optimizer: {kwargs: {lr: 3e-7}}
  dtensor_cfg: {tensor_parallel_size: 1}
  megatron_cfg: {enabled: true, tensor_model_parallel_size: 2, optimizer: {lr: 5e-7}}
cluster: {num_nodes: 2, gpus_per_node: 8}
"""


@pytest.mark.parametrize("trainer", OTHERS)
def test_every_trainers_script_says_what_decides(trainer: str, tmp_path: Path) -> None:
    name, text, expected, values = OTHERS[trainer]
    write(tmp_path / "base.yaml", BASE)
    facts = read_script([write(tmp_path / name, text)])
    found = facts.settings
    assert facts.trainer == trainer
    sizes = (found.rollouts_per_prompt, found.prompts_per_batch, found.learning_rate)
    assert (*sizes, found.model, found.gpus, found.response_tokens) == expected
    assert values.items() <= facts.values.items()
    assert not (tmp_path / "ran").exists()


def test_what_cannot_be_found_is_said_and_not_assumed(tmp_path: Path) -> None:
    text = VERL.replace("data.train_batch_size=256", "data.train_batch_size=$(cat size)").replace("=8 ", "=$N ")
    facts = read_script([write(tmp_path / "run.sh", text)])
    assert (facts.settings.rollouts_per_prompt, facts.settings.prompts_per_batch) == (None, None)
    assert "data.train_batch_size=$(cat)" in facts.unresolved
    assert "actor_rollout_ref.rollout.n=$N" in facts.unresolved


def test_a_launcher_and_the_files_that_it_names_are_read(tmp_path: Path) -> None:
    write(tmp_path / "zero3.yaml", "num_processes: 8\ndeepspeed_config: {zero_stage: 3}\n")
    write(tmp_path / "jobs" / "grpo.yaml", "num_generations: 4\nmodel_name_or_path: org/m\nlearning_rate: 1e-6\n")
    text = "accelerate launch --config_file zero3.yaml -m trl grpo --config jobs/grpo.yaml --num_generations 16\n"
    facts = read_script([write(tmp_path / "jobs" / "run.sh", text.replace("-m trl", "trl"))])
    assert (facts.trainer, facts.settings.gpus, facts.settings.rollouts_per_prompt) == ("trl", 8, 16)
    assert (facts.settings.model, facts.values["sharding"]) == ("org/m", "zero3")


ASYNCHRONOUS = """python -m verl.experimental.fully_async_policy.fully_async_main data.train_batch_size=0 \\
    actor_rollout_ref.rollout.n=16 actor_rollout_ref.actor.ppo_mini_batch_size=32 data.max_response_length=8192 \\
    rollout.total_rollout_steps=$((512*400)) rollout.test_freq=20 async_training.require_batches=4 \\
    actor_rollout_ref.model.path=org/m trainer.n_gpus_per_node=8 rollout.nnodes=2 rollout.n_gpus_per_node=8
"""


def test_a_batch_without_a_size_is_what_is_trained_on_between_two_synchronizations(tmp_path: Path) -> None:
    facts = read_script([write(tmp_path / "run.sh", ASYNCHRONOUS)])
    assert (facts.settings.prompts_per_batch, facts.split.updates, facts.settings.gpus) == (512, 16, 24)
    assert (facts.values["update_steps"], facts.values["validation_every"]) == (400, 20)


def test_what_each_gpu_takes_makes_a_batch_of_the_gpus_that_a_flag_names_or_of_a_node_and_says_so(
    tmp_path: Path,
) -> None:
    recipe = "per_device_train_batch_size: 4\nnum_generations: 8\nmodel_name_or_path: org/m\n"
    path = write(tmp_path / "grpo.yaml", recipe)
    guessed, known = (read_script([path], given) for given in (None, {"gpus": 4}))
    assert [facts.settings.prompts_per_batch for facts in (guessed, known)] == [4, 2]
    assert "8 were taken" in " ".join(guessed.unresolved)
    assert not known.unresolved


def test_no_rollouts_of_a_prompt_leave_open_how_many_prompts_a_batch_has(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("python grpo.py --num_generations 0 --generation_batch_size 64 --max_completion_length 512\n")
    settings = read_script([script]).settings
    assert (settings.rollouts_per_prompt, settings.prompts_per_batch) == (0, None)


def test_what_trains_without_rollouts_is_no_run_of_a_trainer(tmp_path: Path) -> None:
    text = "policy: {max_total_sequence_length: 4096, model_name: org/m, train_global_batch_size: 128}\n"
    assert read_script([write(tmp_path / "sft.yaml", text)]).trainer is None


def test_settings_that_python_makes_and_changes_afterwards_are_read(tmp_path: Path) -> None:
    text = """size = "1.7B"
name = f"willcb/Qwen3-{size}"
model, tokenizer = vf.get_model_and_tokenizer(name)
args = vf.grpo_defaults(run_name="a run")
args.per_device_train_batch_size = 8
args.num_generations = 16
args.gradient_accumulation_steps = 2
args.max_tokens = 2048
trainer = vf.GRPOTrainer(model=model, args=args)
"""
    facts = read_script([write(tmp_path / "train.py", text)], {"gpus": 4})
    settings = facts.settings
    assert (facts.trainer, settings.model, settings.response_tokens) == ("trl", "willcb/Qwen3-1.7B", 2048)
    assert (settings.rollouts_per_prompt, settings.prompts_per_batch) == (16, 4)


def test_a_command_that_stands_in_a_here_document_is_read(tmp_path: Path) -> None:
    start = VERL.partition("python3")[2].replace("$@", "trainer.logger=['console','wandb']")
    text = f'MODEL=org/m\ncommand=$(cat <<EOF\npython3{start}EOF\n)\nsrun --nodes=1 bash -c "$command"\n'
    settings = read_script([write(tmp_path / "job.sh", text)]).settings
    assert (settings.rollouts_per_prompt, settings.prompts_per_batch, settings.model) == (8, 256, "org/m")


@pytest.mark.parametrize("grown", ['a = "x" * 9\n' + 'a = f"{a}{a}"\n' * 60, "a = 9\n" + "a = a * a\n" * 60])
def test_what_python_lets_grow_without_end_is_not_known(tmp_path: Path, grown: str) -> None:
    text = f"a = 'xxxxxxxxx'\n{grown}args = GRPOConfig(output_dir=a, num_generations=8, max_completion_length=64)\n"
    settings = read_script([write(tmp_path / "train.py", text)]).settings
    assert (settings.rollouts_per_prompt, settings.response_tokens) == (8, 64)


def _levels(first: str, level: str, reference: str, many: int = 9, levels: int = 12) -> str:
    """Return levels that each refer so often to the one before."""
    lines = [
        level.format(at=at, all=", ".join([reference.format(before=at - 1)] * many)) for at in range(1, levels + 1)
    ]
    return "\n".join([first, *lines]) + "\n"


WORDS = "A=(" + "--a b " * 5 + ")\n" + ("A=(" + "${A[@]} " * 10 + ")\n") * 9 + 'run "${A[@]}"\n'


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("run.sh", WORDS, "variables grow to more than"),
        ("a.yaml", _levels("a0: &a0 [x]", "a{at}: &a{at} [{all}]", "*a{before}"), "references grow to more than"),
        ("a.yaml", _levels("a0: &a0 {x: 1}", "a{at}: &a{at} {{k: [{all}]}}", "*a{before}"), "references grow"),
        ("a.toml", ".".join(["a"] * 50_000) + " = 1\n", "nested deeper"),
        ("a.toml", "[" + ".".join(['"a"'] * 50_000) + "]\nb = 1\n", "nested deeper"),
        *(
            (f"a.{kind}", "a = " * (kind == "toml") + "[" * 100_000, "nested deeper")
            for kind in ("toml", "json", "yaml")
        ),
        ("a.yaml", "a: &a {b: *a}\n", "nested deeper"),
        ("a.yaml", "a: &a {<<: *a}\n", "nested deeper"),
        ("a.yaml", f"num_generations: {'9' * 400}\nper_device_train_batch_size: 8\nbeta: 0\n", "no setting is larger"),
    ],
)
def test_a_small_file_that_grows_or_nests_is_refused_soon(tmp_path: Path, name: str, text: str, said: str) -> None:
    with limited(), pytest.raises(InputError, match=said) as refused:
        read_script([write(tmp_path / name, text)])
    assert len(str(refused.value)) < 300


def test_merged_keys_and_many_flags_are_read_soon(tmp_path: Path) -> None:
    merged = _levels("a0: &a0 {x: 1}", "a{at}: &a{at} {{<<: [{all}]}}", "*a{before}")
    flags = "run " + " ".join(f"--a{number} 1" for number in range(18_000)) + "\n"
    with limited():
        assert read_script([write(tmp_path / "a.yaml", merged)]).trainer is None
        assert read_script([write(tmp_path / "run.sh", flags)]).trainer is None
