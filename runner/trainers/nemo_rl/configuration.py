"""NeMo-RL's configuration for an attempt, on top of its exemplar: every key that rlplan sets, written as nemo.json."""

from pathlib import Path
from typing import Any

from pydantic import Field

from budgets.errors import InputError
from budgets.memory import CHUNKED, WHOLE
from budgets.memory_plan import Means, MemoryPlan
from planner.checking import Count, Section
from runner.ports.task import Prompt, Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.driving import (
    merged,
    options_in,
    refuse,
    require_chat,
    require_equal_shares,
    rollouts_per_pass,
    run_names,
    save_batches,
    tokenizer_of,
    validation_batches,
)
from runner.trainers.facts import facts_of, nested
from runner.trainers.fitting import fitted
from runner.trainers.nemo_rl.recipe import recipe_keys

CHECKPOINTS = "checkpoints"
SYSTEM = "system.txt"  # the system message, where there is one
ENVIRONMENT = "rlplan"  # as it is registered by start.py
TRAIN, VALIDATION = "train.jsonl", "validation.jsonl"
_ENDLESS = 1_000_000  # epochs: the loop ends by steps
_EXEMPLAR = "examples/configs/grpo_math_1B.yaml"
_KEPT = 2
MEANS = Means("tensor", heads=(WHOLE, CHUNKED))
_ROUND = 64  # tokens, to which it pads what it packs
_CHUNK = 2048  # tokens, in its grpo-math-qwen3-30ba3b-megatron-tp4-32k.yaml


class NemoRlOptions(Section):
    """How NeMo-RL runs, of which nothing but `settings` changes what it computes."""

    checkout: str = Field(description="the folder of NeMo-RL's repository, whose examples/run_grpo.py is started")
    rollouts_per_pass: Count | None = Field(
        None, description="rollouts of one forward and backward pass; else by micro_batch_tokens"
    )
    settings: dict[str, Any] = Field({}, description="further keys of its own, dotted, which must not be ours")


def keys_of(config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, Any]:
    """Return the whole configuration, by dotted keys; InputError for what NeMo-RL cannot run."""
    options = options_in(config, NemoRlOptions)
    _require_runnable(config, task)
    machine, updates, folder = config.machine, config.recipe.schedule.updates_per_batch, attempt.folder
    every, length = validation_batches(config), task.max_response_tokens
    problems = min(config.validation.problems, len(task.validation))
    trial, sweep = run_names(attempt)
    plan = fitted(config, task, MEANS, memory_keys, options.settings)
    free = memory_keys(plan)
    ours: dict[str, Any] = {
        "grpo.num_prompts_per_step": config.prompts_per_batch * updates,
        "grpo.num_generations_per_prompt": config.rollouts_per_prompt,
        "grpo.max_rollout_turns": 1,
        "grpo.max_num_steps": -(-attempt.to_step // updates),
        "grpo.max_num_epochs": _ENDLESS,
        "grpo.seed": config.seed,
        "grpo.val_period": every,
        "grpo.val_at_start": True,  # which it does at step 0 alone
        "grpo.val_at_end": False,
        "grpo.max_val_samples": problems,
        "grpo.val_batch_size": problems,  # by which it rounds down
        "grpo.val_num_generations_per_prompt": config.validation.samples,
        "policy.model_name": task.model_path,
        "policy.tokenizer.name": tokenizer_of(config, task, folder),
        "policy.train_global_batch_size": config.rollouts_per_step,  # of one update
        "policy.train_micro_batch_size": rollouts_per_pass(config, task, plan.tokens, options.rollouts_per_pass),
        "policy.max_total_sequence_length": task.max_prompt_tokens + length,
        "policy.precision": machine.weights,
        "policy.generation.max_new_tokens": length,
        "policy.generation.temperature": config.temperature,
        "policy.generation.top_p": 1.0,
        "policy.generation.top_k": None,
        "data.shuffle": True,
        "data.train": _data(folder / TRAIN),
        "data.validation": _data(folder / VALIDATION),
        "data.default.prompt_file": None,  # its default adds a sentence to each prompt
        "data.default.system_prompt_file": None if system_of(task) is None else str(folder / SYSTEM),
        "data.default.processor": "math_hf_data_processor",
        "data.default.env_name": ENVIRONMENT,
        "env": {ENVIRONMENT: {"folder": str(folder)}},
        "checkpointing.enabled": True,
        "checkpointing.checkpoint_dir": str(folder / CHECKPOINTS),
        "checkpointing.metric_name": None,  # by a metric it would remove the newest
        "checkpointing.keep_top_k": _KEPT,
        "checkpointing.save_period": save_batches(config, attempt),
        "checkpointing.save_optimizer": True,
        "checkpointing.checkpoint_must_save_by": None,
        "cluster.num_nodes": machine.nodes,
        "cluster.gpus_per_node": machine.gpus // machine.nodes,
        "logger.log_dir": str(folder / f"attempt-{attempt.number}.logs"),
        "logger.wandb.name": trial,
        "logger.mlflow.run_name": trial,
        "logger.mlflow.experiment_name": sweep,
        **recipe_keys(config, length),
    }
    if task.chat_template is not None:
        ours["policy.tokenizer.chat_template"] = task.chat_template
    facts = facts_of("nemo-rl")
    facts.require(nested(ours))
    facts.require(nested(options.settings))
    free |= {"logger.wandb_enabled": False, "logger.wandb.project": "rlplan"}
    facts.require(nested(free))
    keys = merged(ours | free, options.settings, free)
    return {"defaults": str(Path(options.checkout).expanduser() / _EXEMPLAR), **keys}


def memory_keys(plan: MemoryPlan) -> dict[str, Any]:
    """Return the keys by which training and vLLM fit; its exemplar is made for 1.5 billion weights and 512 tokens."""
    tokens = -(-plan.tokens // (_ROUND * plan.width)) * _ROUND * plan.width
    return {
        "policy.dtensor_cfg.activation_checkpointing": True,
        "policy.dtensor_cfg.tensor_parallel_size": plan.width,
        "policy.dtensor_cfg.cpu_offload": plan.offload,
        "policy.logprob_chunk_size": _CHUNK if plan.head < WHOLE else None,
        "policy.sequence_packing.enabled": True,
        "policy.sequence_packing.train_mb_tokens": tokens,
        "policy.sequence_packing.logprob_mb_tokens": tokens,
        "policy.generation.vllm_cfg.tensor_parallel_size": plan.engine_gpus,
        "policy.generation.vllm_cfg.gpu_memory_utilization": plan.engine_share,
    }


def _data(path: Path) -> dict[str, Any]:
    own = {"dataset_name": "ResponseDataset", "data_path": str(path), "split_validation_size": 0}
    return {**own, "input_key": "input", "output_key": "output"}


def _require_runnable(config: TrialConfig, task: Task) -> None:
    trainer = "with --trainer nemo-rl"
    refuse(
        config,
        "NeMo-RL",
        {
            "machine.compile": "leave it out",
            "recipe.filters.curriculum": "it shuffles the prompts; set 'none'",
        },
    )
    require_equal_shares(config, config.machine.gpus)
    if config.validation.temperature != config.temperature:
        raise InputError(
            f"validation.temperature = {config.validation.temperature:g} and temperature = {config.temperature:g} "
            f"{trainer}: it samples a validation as it does the training; set both alike"
        )
    prompts = config.prompts_per_batch * config.recipe.schedule.updates_per_batch
    if len(task.train) < prompts:
        raise InputError(
            f"{len(task.train)} training problems {trainer}: a batch of {prompts} prompts is drawn without repeating "
            "any, so at least as many are needed"
        )
    require_chat(task, "NeMo-RL")
    for problem in (*task.train, *task.validation):
        text_of(problem.prompt)  # which refuses several turns


def text_of(prompt: Prompt) -> str:
    """Return what the user says; NeMo-RL's data processor takes one message, after a system message for all."""
    messages = ({"role": "user", "content": prompt},) if isinstance(prompt, str) else prompt
    if [each["role"] for each in messages if each["role"] != "system"] != ["user"]:
        raise InputError("prompts of several turns with --trainer nemo-rl: its data processor takes one message")
    return messages[-1]["content"]


def system_of(task: Task) -> str | None:
    """Return the system message of all prompts."""
    found = {
        next((each["content"] for each in problem.prompt if each["role"] == "system"), None)
        if not isinstance(problem.prompt, str)
        else None
        for problem in (*task.train, *task.validation)
    }
    if len(found) > 1:
        raise InputError("prompts with several system messages, or some, with --trainer nemo-rl: it has one for all")
    return found.pop()
