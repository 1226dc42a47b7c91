"""Every flag that OpenRLHF's train_ppo_ray gets for an attempt of a trial."""

from pathlib import Path
from typing import Any

from budgets.memory import WHOLE
from budgets.memory_plan import Means, MemoryPlan
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.driving import laid_model, merged, rollouts_per_pass, run_names, validation_batches, warmup_steps
from runner.trainers.fitting import fitted
from runner.trainers.horizon import HorizonOptions, rows_of, share_of
from runner.trainers.openrlhf.recipe import recipe_flags

CHECKPOINTS = "checkpoints"  # in the trial's folder; DeepSpeed's tags lie in its folder _actor
PROMPTS, VALIDATION = "train.jsonl", "validation.jsonl"  # written by start.py
AGENT = "agent.py"
_FREE = ("train.micro_batch_size", "rollout.micro_batch_size")
MEANS = Means(heads=(WHOLE,), engine_share=0.5)  # as its examples/scripts/train_ppo_ray_hybrid_engine.sh


def flags_of(config: TrialConfig, task: Task, attempt: Attempt, options: HorizonOptions) -> dict[str, Any]:
    """Return all flags by their names without dashes, with the user's own; `flag_words` puts them on a command line."""
    updates, folder = config.recipe.schedule.updates_per_batch, attempt.folder
    apart, engine = options.vllm_gpus, options.tensor_parallel
    plan = fitted(config, task, MEANS, memory_keys, options.settings, generators=apart, engine_gpus=engine)
    passes = rollouts_per_pass(config, task, plan.tokens, options.rollouts_per_pass, apart)
    ours: dict[str, Any] = {
        **_layout(config, options, plan),
        **recipe_flags(config.recipe, task.max_response_tokens),
        "actor.model_name_or_path": laid_model(task, folder),
        "train.agent_func_path": str(folder / AGENT),
        "data.prompt_dataset": str(folder / PROMPTS),
        "data.input_key": "input",
        "data.label_key": "label",
        "data.max_len": task.max_prompt_tokens + task.max_response_tokens,
        "rollout.max_new_tokens": task.max_response_tokens,
        "rollout.n_samples_per_prompt": config.rollouts_per_prompt,
        "rollout.batch_size": config.prompts_per_batch * updates,
        "rollout.temperature": config.temperature,
        "rollout.micro_batch_size": passes,
        "train.batch_size": config.rollouts_per_step,  # of one update, in samples
        "train.micro_batch_size": passes,
        "train.num_episodes": 1,  # of a file as long as the horizon
        "train.max_epochs": 1,
        "train.seed": config.seed,
        "actor.adam.lr": config.learning_rate,
        "actor.lr_scheduler": "cosine_warmup_with_min_lr",  # of which the first update has a rate already
        "actor.min_lr_ratio": 1.0,  # so that it is constant
        "actor.lr_warmup_ratio": warmup_ratio(config, options),
        "eval.dataset": str(folder / VALIDATION),
        "eval.steps": validation_batches(config),
        "eval.n_samples_per_prompt": config.validation.samples,
        "eval.temperature": config.validation.temperature,
        "ckpt.path": str(folder / CHECKPOINTS),
        "ckpt.output_dir": str(folder / "final"),
        "ckpt.save_steps": 1,  # start.py decides which of them is saved
        "ckpt.max_num": 3,  # two stay while the third is written
        "ckpt.best_metric_key": "none",  # else it keeps one more, by the score
        "logger.logging_steps": 1,
        "logger.wandb.run_name": run_names(attempt)[0],
        "logger.wandb.group": run_names(attempt)[1],
    }
    if attempt.checkpoint is not None:
        ours["ckpt.load_enable"] = True
    free = memory_keys(plan)
    return merged(ours | free, options.settings, (*_FREE, *free))


def memory_keys(plan: MemoryPlan) -> dict[str, Any]:
    """Return the flags by which DeepSpeed fits, as its own scripts have them; a ring of GPUs needs packed samples."""
    return {
        "actor.gradient_checkpointing_enable": True,
        "ds.zero_stage": 3,
        "ds.adam_offload": plan.offload,
        "ds.ring_attn_size": plan.width,
        "ds.packing_samples": plan.width > 1,
    }


def warmup_ratio(config: TrialConfig, options: HorizonOptions) -> float:
    """Return the share of the file's updates that OpenRLHF rounds up to the updates of the warm-up."""
    steps = warmup_steps(config)
    updates = rows_of(config, options) * config.rollouts_per_prompt // config.rollouts_per_step
    return (steps - 0.5) / updates if steps else 0.0


def _layout(config: TrialConfig, options: HorizonOptions, plan: MemoryPlan) -> dict[str, Any]:
    share = share_of(config, options, plan.engine_gpus)
    return {
        "actor.num_nodes": share.nodes,
        "actor.num_gpus_per_node": share.gpus_per_node,
        "ref.num_nodes": share.nodes,
        "ref.num_gpus_per_node": share.gpus_per_node,
        "train.colocate_actor_ref": share.apart,
        "train.colocate_all": not share.apart,
        "vllm.enable_sleep": not share.apart,
        "ds.enable_sleep": not share.apart,
        "vllm.num_engines": share.engines,
        "vllm.tensor_parallel_size": share.engine_gpus,
        "vllm.gpu_memory_utilization": options.vllm_memory or plan.engine_share,
    }


def latest_tag(attempt: Attempt) -> dict[str, str]:
    """Return DeepSpeed's file of the tag that a resumed attempt loads: the one before may have been put aside."""
    if attempt.checkpoint is None:
        return {}
    return {str(Path(CHECKPOINTS) / "_actor" / "latest"): attempt.checkpoint.name}
