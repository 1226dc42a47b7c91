"""Scripts of other people's projects: forks of trainers, branches of the caller, Python settings, turns, devices."""

import json
from pathlib import Path
from typing import Any

import pytest

from planner.scripts.script import read_script
from planner.scripts.settings import ScriptFacts
from tests.planner.curves.reading_samples import write

VERL = "algorithm.adv_estimator={} actor_rollout_ref.model.path=org/m trainer.n_gpus_per_node=4 "
SIZES = "data.train_batch_size=64 actor_rollout_ref.actor.ppo_mini_batch_size=128 data.max_response_length=300 "


def read(folder: Path, name: str, text: str, **files: str) -> ScriptFacts:
    """Read a script beside others, whose names have `__` for a dot."""
    for other, content in files.items():
        write(folder / other.replace("__", "."), content)
    return read_script([write(folder / name, text)])


FORKS: dict[str, tuple[str, str, tuple[Any, ...], dict[str, Any]]] = {
    "verl-agent": (
        "run.sh",
        f"python3 -m verl.trainer.main_ppo {VERL.format('gigpo')} {SIZES} env.rollout.n=8 env.max_steps=10",
        (8, 64, 4, 3000),  # a response is that of all turns
        {"turns": 10, "turn_tokens": 300, "updates_per_batch": 1},  # its mini-batches are counted in turns
    ),
    "search-r1": (
        "run.sh",
        f"python -m verl.trainer.main_ppo {VERL.format('grpo')} {SIZES} actor_rollout_ref.rollout.n_agent=4 \\\n"
        "  max_turns=3 data.max_obs_length=200 data.max_prompt_length=1500 data.max_start_length=1000",
        (4, 64, 4, 500),  # of the 1,500 tokens that prompt, responses and answers may have
        {"turns": 3, "tool_tokens": 200, "prompt_tokens": 1000, "updates_per_batch": 2},
    ),
    "skyrl": (
        "run.sh",
        "uv run -m skyrl_train.entrypoints.main_base trainer.policy.model.path=org/m trainer.train_batch_size=512 "
        "trainer.placement.policy_num_gpus_per_node=8 generator.n_samples_per_prompt=5 generator.max_turns=4 "
        "generator.sampling_params.max_generate_length=500 trainer.policy_mini_batch_size=256 generator.num_engines=4 "
        "generator.inference_engine_tensor_parallel_size=2 trainer.placement.colocate_all=true",
        (5, 512, 8, 2000),
        {"turns": 4, "turn_tokens": 500},
    ),
    "nemo-rl": (
        "puzzle.yaml",
        "grpo: {num_prompts_per_step: 32, num_generations_per_prompt: 16, max_rollout_turns: 50}\n"
        "policy: {model_name: org/m, max_total_sequence_length: 3072, generation: {max_new_tokens: 3072}}\n"
        "cluster: {gpus_per_node: 8, num_nodes: 1}\n",
        (16, 32, 8, 3072),
        {"turns": 50, "turn_tokens": None},  # one that is the whole sequence's bounds no turn
    ),
    "prime-rl": (
        "rl.toml",
        "seq_len = 4096\nmodel.name = 'org/m'\n[deployment]\nnum_train_gpus = 2\nnum_infer_gpus = 6\n"
        "[trainer.optim]\nlr = 1e-5\n[orchestrator]\nbatch_size = 512\n[orchestrator.train]\ngroup_size = 16\n"
        "sampling.max_completion_tokens = 512\n",
        (16, 32, 8, 512),
        {},
    ),
    "search-r1 by another name": (
        "run.sh",
        f"python -m verl.trainer.main_ppo {VERL.format('grpo')} {SIZES} agent_grpo.n=16 max_turns=2",
        (16, 64, 4, 600),
        {"turns": 2, "updates_per_batch": 8},
    ),
    "areal": (
        "run.sh",
        "python3 -m areal.launcher.ray train.py --config grpo.yaml allocation_mode=sglang.d6p1t2+d2p2t1",
        (16, 32, 16, 1500),
        {"staleness": 4, "turns": 5, "turn_tokens": 512, "updates_per_batch": 2},
    ),
    "roll": (
        "rlvr.yaml",
        "rollout_batch_size: 64\nnum_return_sequences_in_group: 8\nresponse_length: 4096\npretrain: org/m\n"
        "actor_train:\n  training_args: {learning_rate: 1.0e-6, per_device_train_batch_size: 2, "
        "gradient_accumulation_steps: 16}\n  device_mapping: list(range(0,8))\n"
        "actor_infer: {device_mapping: 'list(range(8,12))'}\nmax_steps: 300\nasync_generation_ratio: 1\n",
        (8, 64, 12, 4096),
        {"update_steps": 300, "staleness": 1, "updates_per_batch": 2},
    ),
    "roll-agentic": (
        "agentic.yaml",
        "rollout_batch_size: 256\nsequence_length: 8192\npretrain: org/m\nmax_actions_per_traj: 10\n"
        "train_env_manager: {group_size: 8}\nactor_train: {device_mapping: '[0, 1, 2, 3]'}\n"
        "actor_infer: {device_mapping: [0, 1, 2, 3]}\nmax_tokens_per_step: 128\n",
        (8, 32, None, 1280),
        {"turns": 10, "turn_tokens": 128},
    ),
    "easyr1": (
        "run.sh",
        "python3 -m verl.trainer.main config=base.yaml worker.actor.model.model_path=org/m worker.rollout.n=6 "
        "algorithm.disable_kl=True",
        (6, 256, 8, 2048),
        {"updates_per_batch": 4, "kl": 0.0, "optimizer_offload": True},
    ),
    "ms-swift": (
        "run.sh",
        "NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model org/m --tuner_type full --deepspeed zero2 "
        "--per_device_train_batch_size 2 --num_generations 8",
        (8, 2, 4, 512),  # of at least 16 rollouts
        {"sharding": "zero2", "batch_rollouts": 16, "lora_rank": None},
    ),
    "megatron-swift": (
        "run.sh",
        "NPROC_PER_NODE=8 megatron rlhf --rlhf_type grpo --model org/m --global_batch_size 64 --num_generations 8 "
        "--steps_per_generation 2 --max_turns 4 --max_completion_length 256 --lr 5e-6",
        (8, 16, 8, 1024),
        {"turns": 4, "updates_per_batch": 2, "sharding": "megatron"},
    ),
    "open-instruct": (
        "run.sh",
        "python open_instruct/grpo_fast.py --num_unique_prompts_rollout 128 --num_samples_per_prompt_rollout 16 "
        "--num_learners_per_node 8 4 --vllm_num_engines 4 --response_length 8192 --model_name_or_path org/m "
        "--per_device_train_batch_size 1 --total_episodes 204800",
        (16, 128, 16, 8192),
        {"update_steps": 100},
    ),
    "orz": (
        "orz.py",
        """import os
DEBUG = False if os.environ.get("DEBUG", "no") == "no" else True
class ExpConfig(BaseConfig):
    nodes: int = 16 if not DEBUG else 1
    actor_num_nodes: int = nodes
    actor_num_gpus_per_node: int = 1
    vllm_num_engines: int = nodes
    colocate_all: bool = True
    pretrain: str = "org/m"
    rollout_batch_size: int = 128
    n_samples_per_prompt: int = 64
    generate_max_len: int = 8000
    policy_update_steps: int = 2
""",
        (64, 128, 16, 8000),
        {"updates_per_batch": 2},
    ),
    "prime": (
        "run.sh",
        f"python3 -m verl.trainer.main_ppo {VERL.format('rloo')} {SIZES} data.n_samples=4",
        (4, 64, 4, 300),
        {},
    ),
}
BESIDE = {
    "grpo__yaml": "gconfig: {n_samples: 16, max_new_tokens: 512, max_tokens: 2000}\nactor: {path: org/m, "
    "ppo_n_minibatches: 2}\ntrain_dataset: {batch_size: 32, max_length: 500}\nrollout: {max_head_offpolicyness: 4}\n"
    "allocation_mode: sglang.d1p1t1+d1p1t1\nmax_turns: 5\n",
    "base__yaml": "data: {rollout_batch_size: 256, max_response_length: 2048}\nalgorithm: {kl_coef: 0.01}\n"
    "worker: {actor: {global_batch_size: 64, offload: {offload_optimizer: true}}, rollout: {n: 5}}\n"
    "trainer: {n_gpus_per_node: 8}\n",
}


@pytest.mark.parametrize("fork", FORKS)
def test_what_forks_call_and_count_otherwise_is_read_as_they_mean_it(fork: str, tmp_path: Path) -> None:
    name, text, sizes, further = FORKS[fork]
    facts = read(tmp_path, name, text, **BESIDE)
    settings = facts.settings
    n_b_gpus_tokens = (
        settings.rollouts_per_prompt,
        settings.prompts_per_batch,
        settings.gpus,
        settings.response_tokens,
    )
    assert n_b_gpus_tokens == sizes if sizes[2] else n_b_gpus_tokens[:2] == sizes[:2]
    assert further == {name: facts.values.get(name) for name in further}
    assert facts.maker == (fork.split(maxsplit=1)[0] if fork != "prime" else "verl")


def test_pixels_are_read_from_settings_and_from_the_environment(tmp_path: Path) -> None:
    config = "data: {max_pixels: 200704, min_pixels: 3136, rollout_batch_size: 64}\nworker: {rollout: {n: 5}}\n"
    easyr1 = read(tmp_path, "easy.sh", "python3 -m verl.trainer.main config=vl.yaml", vl__yaml=config)
    swift = read(tmp_path, "run.sh", "MAX_PIXELS=401408 NPROC_PER_NODE=4 swift rlhf --rlhf_type grpo --model org/m")
    assert (easyr1.values["max_pixels"], easyr1.values["min_pixels"]) == (200704, 3136)
    assert swift.values["max_pixels"] == 401408


def test_a_split_is_by_the_parts_of_an_allocation_and_by_devices(tmp_path: Path) -> None:
    splits = [read(tmp_path, name, text, **BESIDE).split for name, text, *_ in (FORKS["areal"], FORKS["roll"])]
    assert [(split.generator_gpus, split.asynchronous) for split in splits] == [(12, True), (4, True)]


def test_settings_whose_file_is_not_there_are_asked_for_and_not_taken_from_the_trainer(tmp_path: Path) -> None:
    facts = read_script([write(tmp_path / "run.sh", FORKS["easyr1"][1].replace(" worker.rollout.n=6", ""))])
    assert (facts.settings.rollouts_per_prompt, facts.settings.prompts_per_batch) == (None, None)
    assert "base.yaml is not found" in facts.unresolved


RANKS = """if [ "$NODE_RANK" = "0" ]; then
  ray start --head
  {train} data.train_batch_size=64
else
  ray start --address=$HEAD
fi
"""
MODES = 'case "$MODE" in\n  eval) echo nothing ;;\n  train) {train} data.train_batch_size=64 ;;\nesac\n'


@pytest.mark.parametrize("text", [RANKS, MODES])
def test_of_branches_that_the_caller_decides_the_one_that_trains_is_followed(text: str, tmp_path: Path) -> None:
    train = f"python3 -m verl.trainer.main_ppo {VERL.format('grpo')} actor_rollout_ref.rollout.n=8"
    facts = read(tmp_path, "run.sh", text.format(train=train))
    assert (facts.settings.rollouts_per_prompt, facts.settings.prompts_per_batch) == (8, 64)


def test_a_branch_that_trains_whatever_the_caller_says_stays_the_one_of_an_empty_variable(tmp_path: Path) -> None:
    train = f"python3 -m verl.trainer.main_ppo {VERL.format('grpo')} actor_rollout_ref.rollout.n=8"
    text = f'if [ "$1" = "debug" ]; then B=2; else B=64; fi\n{train} data.train_batch_size=$B\n'
    assert read(tmp_path, "run.sh", text).settings.prompts_per_batch == 64


def test_a_list_is_as_long_as_it_is_and_a_place_to_fill_in_is_no_number(tmp_path: Path) -> None:
    text = f"GPUS=(0 1 2 3 4 5)\npython3 -m verl.trainer.main_ppo {VERL.format('grpo')} actor_rollout_ref.rollout.n=8 "
    text += "data.train_batch_size=64 trainer.n_gpus_per_node=${#GPUS[@]} trainer.nnodes=FILL_ME_IN"
    facts = read(tmp_path, "run.sh", text)
    assert facts.settings.gpus == 6
    assert facts.unresolved == ("trainer.nnodes=FILL_ME_IN",)


TRL = """
import argparse
from settings import GROUP
parser = argparse.ArgumentParser()
parser.add_argument("--size", default="4B")
parser.add_argument("--batch-size", type=int, default=2 * 8)
args = parser.parse_args()
longest = 4096
config = GRPOConfig(num_generations=GROUP, per_device_train_batch_size=args.batch_size,
                    max_completion_length=longest - {prompt}, learning_rate=rate_of(args), max_steps=100)
GRPOTrainer(model=f"Qwen/Qwen3-{args.size}", args=config)
"""


def test_defaults_of_flags_and_modules_beside_a_script_count_and_what_hangs_on_a_call_is_left_open(
    tmp_path: Path,
) -> None:
    facts = read(tmp_path, "train.py", TRL.replace("{prompt}", "1024"), settings__py="GROUP = 8\n")
    settings = facts.settings
    assert (settings.rollouts_per_prompt, settings.prompts_per_batch, settings.model) == (8, 2, "Qwen/Qwen3-4B")
    assert (settings.response_tokens, settings.learning_rate) == (3072, None)  # and not TRL's own 1e-6
    assert facts.unresolved == ("learning_rate=$rate_of(args)",)
    opened = read(tmp_path, "train.py", TRL.replace("{prompt}", "len(prompt)"))
    assert opened.settings.response_tokens is None
    assert "response_tokens" not in opened.assumed


def test_a_command_in_a_text_of_a_script_decides_its_flags_and_its_gpus(tmp_path: Path) -> None:
    command = '"""Start it:\n\naccelerate launch --num-processes 2 train.py --size 8B --batch-size 4\n"""\n'
    facts = read(tmp_path, "train.py", "import os\n" + command + TRL, settings__py="GROUP = 8\n")
    assert (facts.settings.model, facts.settings.gpus, facts.settings.prompts_per_batch) == ("Qwen/Qwen3-8B", 2, 1)


def test_a_notebook_is_read_by_its_cells(tmp_path: Path) -> None:
    call = "GRPOConfig(num_generations=4, per_device_train_batch_size=1, gradient_accumulation_steps=3)"
    cell = {"cell_type": "code", "source": ["!pip install unsloth\n", "import unsloth\n", call]}
    facts = read(tmp_path, "grpo.ipynb", json.dumps({"cells": [{"cell_type": "markdown", "source": ["hi"]}, cell]}))
    assert (facts.maker, facts.settings.rollouts_per_prompt, facts.settings.prompts_per_batch) == (
        "unsloth",
        4,
        3,
    )


OPEN_R1 = """cd src/r1
torchrun --nproc_per_node={gpus} src/open_r1/grpo.py --model_name_or_path org/m --num_generations 8 \\
  --per_device_train_batch_size 1 --gradient_accumulation_steps 2 {more}
"""


@pytest.mark.parametrize(
    ("gpus", "pinned", "expected", "doubt"),
    [
        (8, "", 2, "B is 16 if"),  # which it is, nobody can see
        (3, "", 6, ""),  # rollouts that are no whole groups are refused from TRL 0.15 on
        (8, "trl==0.14.0", 16, ""),
        (8, "trl==0.17.0", 2, ""),
    ],
)
def test_a_share_of_a_gpu_is_counted_in_prompts_by_old_versions_of_trl(
    gpus: int, pinned: str, expected: int, doubt: str, tmp_path: Path
) -> None:
    write(tmp_path / "src/r1/requirements.txt", pinned)
    facts = read(tmp_path, "run.sh", OPEN_R1.format(gpus=gpus, more=""))
    assert facts.settings.prompts_per_batch == expected
    assert (doubt in " ".join(facts.unresolved)) if doubt else not facts.unresolved


def test_gpus_of_a_server_that_a_script_only_names_are_said_not_to_count(tmp_path: Path) -> None:
    facts = read(tmp_path, "run.sh", OPEN_R1.format(gpus=3, more="--use_vllm --vllm_mode server"))
    assert "the GPUs of its vLLM server are not counted" in facts.unresolved


TRAINED = "accelerate launch --num_processes 4 train_grpo.py --model_name_or_path org/m --num_generations 8 "
TRAINED += "--per_device_train_batch_size 8 --use_vllm true --vllm_mode server"


@pytest.mark.parametrize(
    ("server", "generators", "engine"),
    [
        ("CUDA_VISIBLE_DEVICES=4,5 trl vllm-serve --model org/m --tensor_parallel_size 2 &", 2, 2),
        ("CUDA_VISIBLE_DEVICES=4 vllm serve org/m &\nCUDA_VISIBLE_DEVICES=5 vllm serve org/m &", 2, 1),
        ("trl vllm-serve --model org/m --tensor-parallel-size 2 --data-parallel-size 2 &", 4, 2),
        ("srun --nodes=1 --ntasks=1 --nodelist=$LAST trl vllm-serve --model org/m --tensor_parallel_size 4 &", 8, 4),
    ],
)
def test_gpus_of_a_server_that_a_script_starts_are_paid_and_generate_alone(
    server: str, generators: int, engine: int, tmp_path: Path
) -> None:
    facts = read(tmp_path, "run.sh", f"{server}\nCUDA_VISIBLE_DEVICES=0,1,2,3 {TRAINED}\n")
    assert (facts.settings.gpus, facts.split.of(facts.settings.gpus or 0)) == (
        4 + generators,
        (generators, 4, False),
    )
    assert (facts.settings.prompts_per_batch, facts.values["engine_tensor_parallel"]) == (4, engine)  # by what trains
    assert not any("server" in doubt for doubt in facts.unresolved)


def test_a_server_beside_a_trainer_that_generates_itself_is_somebody_else_s(tmp_path: Path) -> None:
    colocated = TRAINED.replace("server", "colocate")
    facts = read(tmp_path, "run.sh", f"CUDA_VISIBLE_DEVICES=4 vllm serve org/judge &\n{colocated}\n")
    assert (facts.settings.gpus, facts.split.of(4)) == (4, (4, 4, True))


@pytest.mark.parametrize("key", ["actor_rollout_ref.agent.max_turns", "trainer.max_turns", "rllm.agent.max_turns"])
def test_turns_are_read_wherever_a_fork_puts_them_but_those_of_a_validation(key: str, tmp_path: Path) -> None:
    text = f"python3 -m verl.trainer.main_ppo {VERL.format('grpo')} {SIZES} actor_rollout_ref.rollout.n=8 "
    facts = read(tmp_path, "run.sh", f"{text} validation.max_turns=9 {key}=4")
    assert (facts.values["turns"], facts.settings.response_tokens) == (4, 300)
