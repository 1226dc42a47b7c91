"""What people start each trainer with, in its own form, and what of it a sweep keeps."""

from pathlib import Path
from typing import Any, NamedTuple


class Given(NamedTuple):
    """A script, and what is kept, decided by the plan and left out of it."""

    name: str
    text: str
    kept: dict[str, Any]
    replaced: dict[str, Any]
    foreign: tuple[str, ...] = ()


SCRIPTS = {
    "verl": Given(
        "run.sh",
        "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=512 "
        "actor_rollout_ref.rollout.n=8 actor_rollout_ref.actor.optim.lr=1e-6 "
        "actor_rollout_ref.model.use_remove_padding=True actor_rollout_ref.rollout.max_num_seqs=512\n",
        {"actor_rollout_ref.model.use_remove_padding": True, "actor_rollout_ref.rollout.max_num_seqs": 512},
        {"data.train_batch_size": 512, "actor_rollout_ref.rollout.n": 8, "algorithm.adv_estimator": "grpo"},
    ),
    "openrlhf": Given(
        "run.sh",
        "ray job submit --address=http://127.0.0.1:8265 -- python3 -m openrlhf.cli.train_ppo_ray "
        "--rollout.n_samples_per_prompt 8 --rollout.batch_size 128 --train.batch_size 1024 "
        "--actor.adam.lr 5e-7 --actor.model_name_or_path Qwen/Qwen3-4B --vllm.gpu_memory_utilization 0.5 "
        "--ds.zero_stage 2 --ds.attn_implementation flash_attention_2 --advantage_estimator group_norm\n",
        {"ds.zero_stage": 2, "ds.attn_implementation": "flash_attention_2"},
        {"rollout.n_samples_per_prompt": 8, "rollout.batch_size": 128, "actor.adam.lr": 5e-7},
        ("address", "advantage_estimator"),
    ),
    "skyrl": Given(
        "run.sh",
        "uv run --isolated --extra fsdp -m skyrl.train.entrypoints.main_base trainer.train_batch_size=256 "
        "trainer.policy_mini_batch_size=64 generator.n_samples_per_prompt=5 trainer.policy.optimizer_config.lr=1e-6 "
        "trainer.logger=wandb trainer.project_name=mine trainer.algorithm.advantage_estimator=grpo "
        "generator.inference_engine.gpu_memory_utilization=0.7 generator.inference_engine.enforce_eager=false\n",
        {"trainer.logger": "wandb", "trainer.project_name": "mine", "generator.inference_engine.enforce_eager": False},
        {"trainer.train_batch_size": 256, "generator.n_samples_per_prompt": 5},
        ("isolated",),
    ),
    "prime-rl": Given(
        "rl.toml",
        'max_steps = 100\nseq_len = 4096\n[model]\nname = "Qwen/Qwen3-4B"\n[orchestrator]\nbatch_size = 512\n'
        "group_size = 16\n[trainer.optim]\nlr = 1e-6\n[trainer.model]\ncompile = true\n[inference.vllm]\n"
        "enforce_eager = true\n",
        {"trainer.model.compile": True, "inference.vllm.enforce_eager": True},
        {"max_steps": 100, "orchestrator.batch_size": 512, "orchestrator.group_size": 16, "trainer.optim.lr": 1e-6},
    ),
    "nemo-rl": Given(
        "grpo.yaml",
        "grpo:\n  num_prompts_per_step: 64\n  num_generations_per_prompt: 16\n  max_num_steps: 100\n"
        "policy:\n  model_name: Qwen/Qwen3-4B\n  train_global_batch_size: 512\n  optimizer:\n    kwargs:\n"
        "      lr: 1.0e-6\n  dtensor_cfg:\n    activation_checkpointing: true\n  generation:\n    vllm_cfg:\n"
        "      gpu_memory_utilization: 0.7\n      enforce_eager: true\ncluster:\n  gpus_per_node: 8\n"
        "  num_nodes: 1\nmine: 3\n",
        {
            "policy.dtensor_cfg.activation_checkpointing": True,
            "policy.generation.vllm_cfg.gpu_memory_utilization": 0.7,
            "policy.generation.vllm_cfg.enforce_eager": True,
        },
        {"grpo.num_prompts_per_step": 64, "grpo.num_generations_per_prompt": 16, "cluster.gpus_per_node": 8},
        ("mine",),
    ),
    "slime": Given(
        "run.sh",
        "MODEL_ARGS=(--swiglu --num-layers 36)\n"
        "ray job submit --address=http://127.0.0.1:8265 -- python3 train.py --actor-num-nodes 1 "
        "--actor-num-gpus-per-node 8 --colocate ${MODEL_ARGS[@]} --hf-checkpoint /root/Qwen3-4B --num-rollout 3000 "
        "--rollout-batch-size 32 --n-samples-per-prompt 8 --global-batch-size 256 --lr 1e-6 --adam-beta2 0.98 "
        "--rm-type deepscaler --max-tokens-per-gpu 9216 --sglang-mem-fraction-static 0.8 --attention-backend flash\n",
        {
            "colocate": True,
            "max-tokens-per-gpu": 9216,
            "sglang-mem-fraction-static": 0.8,
            "attention-backend": "flash",
        },
        {"rollout-batch-size": 32, "n-samples-per-prompt": 8, "lr": 1e-6, "num-layers": 36, "rm-type": "deepscaler"},
        ("address",),
    ),
    "trl": Given(
        "train.py",
        "from trl import GRPOConfig, GRPOTrainer\n"
        "args = GRPOConfig(output_dir='out', num_generations=8, per_device_train_batch_size=8, learning_rate=1e-6,\n"
        "    gradient_checkpointing=True, use_vllm=True, vllm_mode='server', max_completion_length=2048, beta=0.0,\n"
        "    report_to='wandb', log_completions=True)\n"
        "trainer = GRPOTrainer(model='Qwen/Qwen3-4B', args=args)\ntrainer.train()\n",
        {"gradient_checkpointing": True, "report_to": "wandb", "log_completions": True},
        {"num_generations": 8, "learning_rate": 1e-6, "use_vllm": True, "vllm_mode": "server"},
    ),
}


def written(folder: Path, name: str, text: str) -> Path:
    """Write a script, and return its path."""
    path = folder / name
    path.write_text(text)
    return path
