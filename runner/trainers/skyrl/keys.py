"""Every key of SkyRLTrainConfig that an attempt of a trial sets."""

import json
from typing import Any

from budgets.memory_plan import Means, MemoryPlan
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.driving import laid_model, merged, rollouts_per_pass, run_names, validation_batches, warmup_steps
from runner.trainers.fitting import fitted
from runner.trainers.horizon import HorizonOptions, batches_of, share_of
from runner.trainers.skyrl.recipe import recipe_keys

CHECKPOINTS, EXPORTS = "checkpoints", "exports"  # in the trial's folder
PROMPTS, VALIDATION = "train.jsonl", "validation.jsonl"  # written by start.py
ENVIRONMENT = "rlplan"
_FREE = (
    "trainer.micro_train_batch_size_per_gpu",
    "trainer.micro_forward_batch_size_per_gpu",
    "trainer.enable_ray_gpu_monitor",
    "trainer.logger",
    "trainer.project_name",
    "trainer.print_example_interval",
)
MEANS = Means(engine_share=0.8)  # as its examples and its default have


def keys_of(config: TrialConfig, task: Task, attempt: Attempt, options: HorizonOptions) -> dict[str, Any]:
    """Return all keys by their dotted names, with the user's own; `overrides` makes a command line of them."""
    updates, folder = config.recipe.schedule.updates_per_batch, attempt.folder
    apart, engine = options.vllm_gpus, options.tensor_parallel
    plan = fitted(config, task, MEANS, memory_keys, options.settings, generators=apart, engine_gpus=engine)
    passes = rollouts_per_pass(config, task, plan.tokens, options.rollouts_per_pass, apart)
    resumed, share = attempt.checkpoint is not None, share_of(config, options, plan.engine_gpus)
    trainer: dict[str, Any] = {
        "placement.colocate_all": not share.apart,
        "placement.policy_num_nodes": share.nodes,
        "placement.policy_num_gpus_per_node": share.gpus_per_node,
        "placement.ref_num_nodes": share.nodes,
        "placement.ref_num_gpus_per_node": share.gpus_per_node,
        "strategy": "fsdp",
        "policy.model.path": laid_model(task, folder),
        "ref.model.path": laid_model(task, folder),
        "policy.optimizer_config.lr": config.learning_rate,
        "policy.optimizer_config.scheduler": "constant_with_warmup",
        "policy.optimizer_config.num_warmup_steps": warmup_steps(config),  # counted in updates
        "seed": config.seed,
        "epochs": 1,  # of a file as long as the horizon
        "max_training_steps": -(-attempt.to_step // updates),
        "train_batch_size": config.prompts_per_batch * updates,
        "policy_mini_batch_size": config.prompts_per_batch,  # of one update, in prompts
        "update_epochs_per_batch": 1,
        "micro_train_batch_size_per_gpu": passes,
        "micro_forward_batch_size_per_gpu": passes,
        "max_prompt_length": task.max_prompt_tokens,
        "eval_batch_size": config.validation.problems,
        "eval_interval": validation_batches(config),
        "eval_before_train": not resumed,  # else it would score its checkpoint again
        "dump_eval_results": True,
        "resume_mode": "from_path" if resumed else "none",
        "resume_path": str(attempt.checkpoint) if resumed else None,
        "ckpt_path": str(folder / CHECKPOINTS),
        "ckpt_interval": batches_of(config, options) + 1,  # start.py asks for one in between; the last is always saved
        "max_ckpts_to_keep": 2,
        "hf_save_interval": -1,
        "export_path": str(folder / EXPORTS),
        "log_path": str(folder / "logs"),
        "logger": "console",
        "project_name": "rlplan",
        "run_name": run_names(attempt)[0],
        "print_example_interval": -1,
        "enable_ray_gpu_monitor": False,  # it reports to Weights & Biases
    }
    generator: dict[str, Any] = {
        "n_samples_per_prompt": config.rollouts_per_prompt,
        "max_turns": 1,
        # It leaves out groups without signal only where a response has one reward, and then scores them all at the end.
        "batched": config.recipe.filters.zero_variance != "keep",
        "sampling_params.max_generate_length": task.max_response_tokens,
        "sampling_params.temperature": config.temperature,
        "eval_n_samples_per_prompt": config.validation.samples,
        "eval_sampling_params.max_generate_length": task.max_response_tokens,
        "eval_sampling_params.temperature": config.validation.temperature,  # its own is 0
        "inference_engine.num_engines": share.engines,
        "inference_engine.tensor_parallel_size": share.engine_gpus,
        "inference_engine.gpu_memory_utilization": options.vllm_memory or plan.engine_share,
        "inference_engine.enable_ray_prometheus_stats": False,
    }
    ours = {
        "data.train_data": [str(folder / PROMPTS)],
        "data.val_data": [str(folder / VALIDATION)],
        "data.dataloader.num_workers": 0,  # what others have read ahead is in no checkpoint
        "environment.env_class": ENVIRONMENT,
        **{f"trainer.{name}": value for name, value in trainer.items()},
        **{f"generator.{name}": value for name, value in generator.items()},
        **recipe_keys(config.recipe, task.max_response_tokens),
    }
    free = memory_keys(plan)
    return merged(ours | free, options.settings, (*_FREE, *free))


def memory_keys(plan: MemoryPlan) -> dict[str, Any]:
    """Return the keys by which FSDP2 fits; logits are in chunks, and states asleep, by its own defaults."""
    return {
        "trainer.gradient_checkpointing": True,
        "trainer.policy.fsdp_config.cpu_offload": plan.offload,
        "trainer.policy.sequence_parallel_size": plan.width,
        "trainer.ref.sequence_parallel_size": plan.width,
    }


def overrides(keys: dict[str, Any]) -> list[str]:
    """Return keys as SkyRL's command line takes them: values as YAML reads them, which JSON is."""
    return [f"{name}={json.dumps(value)}" for name, value in keys.items()]
