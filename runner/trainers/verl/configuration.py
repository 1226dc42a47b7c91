"""Everything that verl is told of a trial: one table of keys, the words of its command, and the files beside it."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from budgets.memory import FUSED, WHOLE
from budgets.memory_plan import Means, MemoryPlan
from planner.checking import Count, Positive, Section
from runner.machine import cpu_cores
from runner.ports.task import Task
from runner.ports.trial import Machine, TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.trainers.driver import Attempt
from runner.trainers.driving import (
    merged,
    options_in,
    require_chat,
    run_names,
    save_batches,
    tokenizer_of,
    tracked,
    validation_batches,
    warmup_batches,
)
from runner.trainers.fitting import fitted
from runner.trainers.in_own_ray import gpus_here
from runner.trainers.laying import judged_files, programs
from runner.trainers.render import words
from runner.trainers.verl.recipe import ACTOR, optimizer_keys, recipe_keys
from runner.training.building import open_stream

FOLDER = "checkpoints"  # of all that verl saves, in the trial's
TRACKER = f"{FOLDER}/latest_checkpointed_iteration.txt"
MODULE = "rlplan_verl"  # what verl imports of ours
SAVING = "rlplan_saving"  # likewise, in the process of its trainer alone
ROLLOUT = "actor_rollout_ref.rollout"
TEMPLATE = "actor_rollout_ref.model.custom_chat_template"
_PLAIN_TEMPLATE = "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"
MEANS = Means(heads=(WHOLE, FUSED), sleeps=None)
_ENDLESS = 1_000_000  # epochs: the loop ends by updates
_ROWS = 1 << 16  # of the prompts in the order of a trial, after which it begins anew
FREE = (  # ours unless the user says otherwise: they change how it runs, and not what it computes
    f"{ROLLOUT}.agent.num_workers",
    "transfer_queue.backend.SimpleStorage.num_data_storage_units",
    "reward.num_workers",
    "data.dataloader_num_workers",
    f"{ROLLOUT}.enforce_eager",
    "actor_rollout_ref.model.use_remove_padding",
    "trainer.max_actor_ckpt_to_keep",
    "trainer.logger",
    "trainer.project_name",
)
MEMORY = (  # likewise, by the memory plan
    "actor_rollout_ref.model.enable_gradient_checkpointing",
    "actor_rollout_ref.model.use_fused_kernels",
    f"{ACTOR}.ppo_max_token_len_per_gpu",
    f"{ACTOR}.ulysses_sequence_parallel_size",
    f"{ACTOR}.fsdp_config.param_offload",
    f"{ACTOR}.fsdp_config.optimizer_offload",
    f"{ACTOR}.fsdp_config.offload_policy",
    "actor_rollout_ref.ref.fsdp_config.param_offload",
)


class VerlOptions(Section):
    """How verl runs, of which nothing but `settings` changes what it computes."""

    rollout: Literal["vllm", "sglang", "trtllm"] = Field("vllm", description="whose servers generate")
    strategy: Literal["fsdp", "fsdp2"] = Field("fsdp2", description="how the model is spread over the GPUs")
    tensor_parallel: Count | None = Field(None, description="GPUs of an engine's copy of the model; else by the memory")
    rollout_memory: Positive | None = Field(None, description="share of a GPU that engines take; else by what is there")
    save_steps: Count | None = Field(None, description="updates between saves; else by [trainer] save_seconds")
    settings: dict[str, Any] = Field({}, description="further keys of verl, which must not be ours")


def keys_of(config: TrialConfig, task: Task, attempt: Attempt, *, scored: bool = True) -> dict[str, Any]:
    """Return every key of verl by its dotted name; `scored` says whether its checkpoint's own score is known."""
    options, machine = options_in(config, VerlOptions), config.machine
    each_node = machine.gpus // machine.nodes
    updates, every = config.recipe.schedule.updates_per_batch, validation_batches(config)
    draws = zlib.crc32(f"{config.seed}/{attempt.from_step}".encode()) >> 1  # a resumed run does not draw the same again
    folder = attempt.folder.absolute()
    means = replace(MEANS, offloads=options.strategy == "fsdp2")
    plan = fitted(config, task, means, MEMORY, options.settings, engine_gpus=options.tensor_parallel)
    ours = {
        **recipe_keys(config.recipe, task.max_response_tokens),
        **optimizer_keys(config.recipe, config.learning_rate, warmup_batches(config)),
        "actor_rollout_ref.model.path": task.model_path,
        "actor_rollout_ref.model.tokenizer_path": tokenizer_of(config, task, folder),
        "data.train_files": str(folder / "train.parquet"),
        "data.val_files": str(folder / "validation.parquet"),
        "data.max_prompt_length": task.max_prompt_tokens,
        "data.max_response_length": task.max_response_tokens,
        "data.train_batch_size": config.prompts_per_batch * updates,
        "data.shuffle": False,  # they lie in the plan's order
        "data.validation_shuffle": False,
        "data.seed": config.seed,
        "reward.custom_reward_function.path": str(folder / "reward.py"),
        "reward.custom_reward_function.name": "compute_score",
        f"{ACTOR}.ppo_mini_batch_size": config.prompts_per_batch,  # of one update, in prompts
        f"{ACTOR}.use_dynamic_bsz": True,
        f"{ACTOR}.shuffle": False,
        f"{ACTOR}.data_loader_seed": config.seed,
        f"{ACTOR}.strategy": options.strategy,
        f"{ACTOR}.fsdp_config.dtype": machine.weights,
        f"{ACTOR}.fsdp_config.model_dtype": "fp32",
        f"{ACTOR}.fsdp_config.seed": config.seed,
        f"{ACTOR}.checkpoint.async_save": False,  # which would write no tracker
        f"{ROLLOUT}.name": options.rollout,
        f"{ROLLOUT}.n": config.rollouts_per_prompt,
        f"{ROLLOUT}.temperature": config.temperature,
        f"{ROLLOUT}.top_p": 1.0,
        f"{ROLLOUT}.top_k": -1,
        f"{ROLLOUT}.seed": draws,
        f"{ROLLOUT}.dtype": machine.weights,
        f"{ROLLOUT}.tensor_model_parallel_size": plan.engine_gpus,
        f"{ROLLOUT}.gpu_memory_utilization": options.rollout_memory or plan.engine_share,
        f"{ROLLOUT}.val_kwargs.n": config.validation.samples,
        f"{ROLLOUT}.val_kwargs.temperature": config.validation.temperature,
        f"{ROLLOUT}.val_kwargs.do_sample": config.validation.temperature > 0,
        f"{ROLLOUT}.val_kwargs.top_p": 1.0,
        f"{ROLLOUT}.val_kwargs.top_k": -1,
        "trainer.use_v1": True,
        "trainer.v1.trainer_mode": "sync",
        "trainer.device": "cuda",
        "trainer.nnodes": machine.nodes,
        "trainer.n_gpus_per_node": each_node,
        "trainer.total_training_steps": -(-attempt.to_step // updates),
        "trainer.total_epochs": _ENDLESS,
        "trainer.test_freq": every,
        "trainer.save_freq": save_batches(config, attempt, options.save_steps),
        "trainer.val_before_train": attempt.from_step == 0 or not scored,
        "trainer.validation_data_dir": str(folder / scores_folder(attempt)),
        "trainer.checkpoint_callback_class": f"{SAVING}.SaveNow",
        "trainer.default_local_dir": str(folder / FOLDER),
        "trainer.resume_mode": "disable" if attempt.checkpoint is None else "resume_path",
        "trainer.resume_from_path": None if attempt.checkpoint is None else str(attempt.checkpoint.absolute()),
        "trainer.experiment_name": run_names(attempt)[0],
        "hydra.run.dir": ".",
        "hydra.output_subdir": None,
    }
    said = options.settings.get("trainer.logger", "console")
    loggers = {"trainer.logger": [*([said] if isinstance(said, str) else said), "file"]}  # which rlplan reads
    ours["trainer.project_name"] = "rlplan"
    helpers = _helpers(machine)
    # By default it has 8 of each; storage units hold a core each, and it keeps every checkpoint.
    free = {FREE[0]: helpers, FREE[1]: 2, FREE[2]: helpers, FREE[3]: helpers // machine.nodes, FREE[6]: 2}
    if config.task.name in EMBEDDED:
        ours[TEMPLATE] = _PLAIN_TEMPLATE
    elif task.chat_template is not None:
        ours[TEMPLATE] = task.chat_template
    elif TEMPLATE not in options.settings:
        instead = f'take a model that has one, or give one by [trainer.options.settings] "{TEMPLATE}"'
        require_chat(task, "verl", instead)
    return merged({**ours, **free, **memory_keys(plan)}, options.settings | loggers, (*FREE, *MEMORY))


def memory_keys(plan: MemoryPlan) -> dict[str, Any]:
    """Return the keys by which it trains within the memory: a token length is of one of the GPUs that share a batch."""
    tokens, swapped = -(-plan.tokens // plan.width), plan.sleep and not plan.offload
    return dict(
        zip(
            MEMORY, (True, plan.head == FUSED, tokens, plan.width, swapped, swapped, plan.offload, swapped), strict=True
        )
    )


def _helpers(machine: Machine) -> int:
    """Return how many processes ask for responses, and how many score: a quarter of the cores, 2 to 8 on each node."""
    gpus = machine.gpus // machine.nodes
    cores = cpu_cores() * gpus // max(gpus, gpus_here())  # the other GPUs of a node are other trials'
    return machine.nodes * max(2, min(8, cores // 4))


def scores_folder(attempt: Attempt) -> str:
    """Return where the answers of an attempt's validations go, which tell the error of a score."""
    return f"validation-{attempt.number}"


def files_of(config: TrialConfig, task: Task, attempt: Attempt, keys: Mapping[str, Any]) -> dict[str, str]:
    """Return every file of an attempt by its path in the folder."""
    order = open_stream(config, task).take(max(_ROWS, len(task.train)))
    return {
        **judged_files(config, task, int(keys["reward.num_workers"]) // config.machine.nodes),
        **programs("verl", "start.py", "reward.py"),
        f"{MODULE}.py": programs("verl", "advantages.py")["advantages.py"],
        f"{SAVING}.py": programs("verl", "saving.py")["saving.py"],
        "advantage.json": json.dumps(config.recipe.advantage.model_dump()),
        "order.json": json.dumps(order),
        "overrides.json": json.dumps(words(keys, "hydra"), indent=1),
        **tracked(TRACKER, attempt.from_step // config.recipe.schedule.updates_per_batch),
    }
