"""prime-rl's RLConfig for an attempt, which is written as rl.json: every key that rlplan sets."""

import zlib
from pathlib import Path
from typing import Any

from pydantic import Field

from budgets.errors import InputError
from budgets.memory import FUSED
from budgets.memory_plan import Means, MemoryPlan
from planner.checking import Count, Section
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.trainers.driver import Attempt
from runner.trainers.driving import (
    merged,
    options_in,
    refuse,
    require_chat,
    run_names,
    save_steps,
    tokenizer_of,
    validation_steps,
)
from runner.trainers.facts import facts_of, nested
from runner.trainers.fitting import fitted
from runner.trainers.prime_rl.recipe import gates, recipe_keys

RUN = "run"  # its run directory, in the attempt's folder
TRAIN, VALIDATION = "train", "validation"
TASKSET = "rlplan_taskset"  # the module that is laid into the folder
MEANS = Means(heads=(FUSED,))  # its defaults keep the optimizer in the host's memory, and checkpoint activations
_PORTS, _EACH, _GROUPS = 10_000, 64, 300  # the first, how many a trial has, and how many trials


class PrimeRlOptions(Section):
    """How prime-rl runs, of which nothing but `settings` changes what it computes."""

    train_gpus: Count | None = Field(None, description="GPUs that train; the others generate. Else half of them")
    renderer: str = Field("default", description="orchestrator.renderer.name; 'default' is the model's chat template")
    first_port: Count | None = Field(None, description="of the eight that a trial takes; else by its first GPU")
    settings: dict[str, Any] = Field({}, description="further keys of its RLConfig, dotted, which must not be ours")


def training_gpus(config: TrialConfig, options: PrimeRlOptions) -> int:
    """Return how many GPUs train, so that the others generate; InputError where they cannot be shared out so."""
    machine = config.machine
    train = options.train_gpus or machine.gpus // 2
    if machine.nodes > 1:
        raise InputError(
            f"machine.nodes = {machine.nodes} with --trainer prime-rl: it starts on several nodes by Slurm alone, in "
            "jobs of its own. Use one node, or another trainer"
        )
    if not 0 < train < machine.gpus:
        raise InputError(
            f"machine.gpus = {machine.gpus}, of which {train} train, with --trainer prime-rl: it trains on some GPUs "
            "and generates on others. Use at least 2 GPUs, and [trainer.options] train_gpus of less than all"
        )
    return train


def keys_of(config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, Any]:
    """Return the whole configuration, by dotted keys; InputError for what prime-rl cannot run."""
    options = options_in(config, PrimeRlOptions)
    _require_runnable(config, task)
    train, port = training_gpus(config, options), _first_port(attempt, options)
    length, most = task.max_response_tokens, task.max_prompt_tokens + task.max_response_tokens
    sampling = {"temperature": config.temperature, "max_completion_tokens": length}
    validation = {"temperature": config.validation.temperature, "max_completion_tokens": length, "top_p": 1.0}
    every = validation_steps(config)
    ours: dict[str, Any] = {
        "output_dir": str(attempt.folder),
        "run.name": RUN,
        "run.dir": RUN,
        "clean": attempt.checkpoint is None,  # what an attempt left that saved nothing; it refuses a used folder
        "max_steps": attempt.to_step,  # where it ends, wherever it begins
        "model.name": task.model_path,
        "tokenizer.name": tokenizer_of(config, task, attempt.folder),
        "seq_len": most,
        "ckpt.interval": save_steps(config, attempt),
        "ckpt.keep_last": 2,
        "deployment.type": "single_node",
        "deployment.gpus_per_node": config.machine.gpus,
        "deployment.num_train_gpus": train,
        "deployment.num_infer_gpus": config.machine.gpus - train,
        "weight_broadcast.type": "filesystem",  # which has no port
        "rollout_transport.type": "filesystem",
        "inference.server.port": port,
        "inference.backend_port": port + 1,
        "inference.vllm.data_parallel_rpc_port": port + 2,
        "inference.vllm.max_model_len": most,
        "inference.vllm.seed": config.seed,
        "orchestrator.env_server_base_port": port + 3,
        "orchestrator.model.client.base_url": f"http://localhost:{port}/v1",
        "orchestrator.renderer.name": options.renderer,
        "orchestrator.monitors.file.path": str(metrics_of(attempt, "orchestrator")),
        "trainer.monitors.file.path": str(metrics_of(attempt, "trainer")),
        "orchestrator.batch_size": config.rollouts_per_step,
        "orchestrator.group_size": config.rollouts_per_prompt,
        "orchestrator.train.sampling": sampling,
        "orchestrator.train.source": [{**_source(TRAIN, config.seed), **gates(config.recipe)}],
        "orchestrator.eval.sampling": validation,
        "orchestrator.eval.source": [_source(VALIDATION, config.seed)],
        "orchestrator.eval.interval": every,
        "orchestrator.eval.group_size": config.validation.samples,
        "orchestrator.eval.num_examples": -1,
        "orchestrator.eval.skip_first_step": False,
        "orchestrator.eval.retrigger_on_resume": False,
        "trainer.model.optimization_dtype": "float32",
        **recipe_keys(config),
    }
    if task.chat_template is not None:
        ours["tokenizer.chat_template"] = task.chat_template
    if attempt.checkpoint is not None:
        ours["resume.step"] = attempt.from_step  # the latest that it would find itself may be torn
    for monitor in ("trainer.monitors.wandb.", "orchestrator.monitors.wandb."):
        if any(key.startswith(monitor) for key in options.settings):  # which switches it on
            ours |= zip((f"{monitor}name", f"{monitor}group"), run_names(attempt), strict=True)
    apart = config.machine.gpus - train
    free = memory_keys(fitted(config, task, MEANS, memory_keys, options.settings, generators=apart))
    facts_of("prime-rl").require(nested(ours))
    facts_of("prime-rl").require(nested(options.settings))
    return merged(ours | free, options.settings, free)


def memory_keys(plan: MemoryPlan) -> dict[str, Any]:
    """Return the keys by which training and vLLM fit the GPUs that each has to itself."""
    return {
        "inference.vllm.gpu_memory_utilization": plan.engine_share,
        "inference.vllm.tensor_parallel_size": plan.engine_gpus,
        "trainer.model.cp": plan.width,
    }


def metrics_of(attempt: Attempt, component: str) -> Path:
    """Return where a component of an attempt writes its metrics: its file is opened to append."""
    return attempt.folder / f"attempt-{attempt.number}.{component}.jsonl"


def _source(split: str, seed: int) -> dict[str, Any]:
    agent = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
    return {"name": split, "env": {"taskset": {"id": TASKSET, "split": split, "seed": seed}, "agent": agent}}


def _first_port(attempt: Attempt, options: PrimeRlOptions) -> int:
    """Return the first of a trial's ports, which no other trial has on a host: no two have the same GPU."""
    if options.first_port is not None:
        return options.first_port
    first = attempt.gpus[0].split(",")[0] if attempt.gpus else ""
    group = int(first) if first.isdigit() else zlib.crc32(f"{attempt.folder}/{first}".encode()) % _GROUPS
    return _PORTS + _EACH * (group % _GROUPS)


def _require_runnable(config: TrialConfig, task: Task) -> None:
    refuse(
        config,
        "prime-rl",
        {
            "machine.compile": "set trainer.model.compile in [trainer.options.settings] instead",
            "recipe.filters.curriculum": "it asks the prompts in one order; set 'none'",
        },
    )
    require_chat(task, "prime-rl")
