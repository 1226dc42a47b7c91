"""slime's command line for an attempt: every flag that rlplan sets, and those of the model."""

import shlex
from pathlib import Path
from typing import Any

from pydantic import Field

from budgets.errors import InputError
from budgets.memory import CHUNKED, WHOLE
from budgets.memory_plan import Means, MemoryPlan
from planner.checking import Section
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.embedded import EMBEDDED
from runner.trainers.driver import Attempt
from runner.trainers.driving import (
    has_chat,
    merged,
    options_in,
    refuse,
    require_equal_shares,
    run_names,
    save_batches,
    validation_batches,
)
from runner.trainers.facts import facts_of
from runner.trainers.fitting import fitted
from runner.trainers.slime.recipe import recipe_flags

CHECKPOINTS = "checkpoints"
TRACKER = f"{CHECKPOINTS}/latest_checkpointed_iteration.txt"
TRAIN, VALIDATION = "train.jsonl", "validation.jsonl"
PROBLEMS = "validation"  # what it calls the problems to validate on
ADAPTER = "rlplan_slime"  # the module that is laid into the folder
_MODEL = "MODEL_ARGS=("
MEANS = Means("megatron", heads=(WHOLE, CHUNKED), engine_share=0.7)  # as its scripts/run-qwen3-4B.sh
_CHUNK = 1024  # tokens, in its scripts/run-glm5-744B-A40B.sh


class SlimeOptions(Section):
    """How slime runs, of which nothing but `settings` changes what it computes."""

    checkout: str = Field(description="the folder of slime's repository, whose train.py is started")
    megatron: str = Field(description="the folder of Megatron-LM, for PYTHONPATH")
    model_args: str = Field(description="a script with the model's MODEL_ARGS, such as scripts/models/qwen3-8B.sh")
    settings: dict[str, Any] = Field(
        {}, description="further flags with their values (true: none), which must not be ours"
    )


def flags_of(config: TrialConfig, task: Task, attempt: Attempt) -> dict[str, Any]:
    """Return all flags with their values, of which True stands alone; InputError for what slime cannot run."""
    options = options_in(config, SlimeOptions)
    _require_runnable(config)
    machine, updates, folder = config.machine, config.recipe.schedule.updates_per_batch, attempt.folder
    model, length = task.model_path, task.max_response_tokens
    every = validation_batches(config)
    ours: dict[str, Any] = {
        "--hf-checkpoint": model,
        "--ref-load": model,  # and where it begins, as long as nothing is saved
        "--load": str(folder / CHECKPOINTS),
        "--save": str(folder / CHECKPOINTS),
        "--save-interval": save_batches(config, attempt),
        "--prompt-data": str(folder / TRAIN),
        "--input-key": "prompt",
        "--label-key": "label",
        "--apply-chat-template": has_chat(task) and task.chat_template is None,
        "--rollout-shuffle": True,
        "--rollout-seed": config.seed,
        "--seed": config.seed + 1,  # Megatron's must be positive
        "--num-rollout": -(-attempt.to_step // updates),  # where it ends, wherever it begins
        "--rollout-batch-size": config.prompts_per_batch * updates,
        "--n-samples-per-prompt": config.rollouts_per_prompt,
        "--global-batch-size": config.rollouts_per_step,  # of one update
        "--rollout-temperature": config.temperature,
        "--rollout-top-p": 1.0,
        "--rollout-max-response-len": length,
        "--eval-interval": every,
        "--eval-prompt-data": [PROBLEMS, str(folder / VALIDATION)],
        "--n-samples-per-eval-prompt": config.validation.samples,
        "--eval-temperature": config.validation.temperature,
        "--eval-top-p": 1.0,
        "--eval-max-response-len": length,
        "--custom-rm-path": f"{ADAPTER}.reward",
        "--custom-reward-post-process-path": f"{ADAPTER}.advantages_of",
        "--custom-rollout-log-function-path": f"{ADAPTER}.tell_rollouts",
        "--custom-eval-rollout-log-function-path": f"{ADAPTER}.tell_validation",
        "--custom-megatron-init-path": f"{ADAPTER}.listen",
        "--actor-num-nodes": machine.nodes,
        "--actor-num-gpus-per-node": machine.gpus // machine.nodes,
        "--num-gpus-per-node": machine.gpus // machine.nodes,
        "--wandb-group": "-".join(reversed(run_names(attempt))),  # the run's name is made of it
        **recipe_flags(config),
    }
    given = {flag if flag.startswith("--") else f"--{flag}": value for flag, value in options.settings.items()}
    free = {
        "--colocate": True,
        "--balance-data": True,
        "--attention-dropout": 0.0,
        "--hidden-dropout": 0.0,
        "--attention-softmax-in-fp32": True,
        "--accumulate-allreduce-grads-in-fp32": True,
        **memory_keys(fitted(config, task, MEANS, memory_keys, given)),
    }
    known = {flag: value for flag, value in {**ours, **free, **given}.items() if not flag.startswith("--sglang-")}
    facts_of("slime").require(known)
    return merged(ours | free, given, free)


def memory_keys(plan: MemoryPlan) -> dict[str, Any]:
    """Return the flags by which Megatron and SGLang fit, as its own scripts have them."""
    spread = {"--expert-model-parallel-size": plan.experts, "--expert-tensor-parallel-size": 1}
    in_host = ("--optimizer-cpu-offload", "--overlap-cpu-optimizer-d2h-h2d", "--use-precision-aware-optimizer")
    return {
        "--tensor-model-parallel-size": plan.width,
        "--sequence-parallel": plan.width > 1,
        **(spread if plan.experts > 1 else {}),
        "--recompute-granularity": "full",
        "--recompute-method": "uniform",
        "--recompute-num-layers": 1,
        "--use-dynamic-batch-size": True,
        "--max-tokens-per-gpu": plan.tokens,
        **({"--log-probs-chunk-size": _CHUNK} if plan.head < WHOLE else {}),
        **dict.fromkeys(in_host, plan.offload),
        "--rollout-num-gpus-per-engine": plan.engine_gpus,
        "--sglang-mem-fraction-static": plan.engine_share,
    }


def model_words(options: SlimeOptions) -> list[str]:
    """Return the model's own flags, from a script of slime's."""
    path = Path(options.model_args).expanduser()
    path = path if path.is_absolute() else Path(options.checkout).expanduser() / path
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"[trainer.options] model_args = '{options.model_args}': {error.strerror}: {path}") from error
    _, found, rest = text.partition(_MODEL)
    words = [_default(word) for word in shlex.split(rest.partition("\n)")[0], comments=True)]
    if not found or any("$" in word for word in words):
        raise InputError(
            f"[trainer.options] model_args = '{options.model_args}': a script is wanted with the flags of the model in "
            f"{_MODEL}…), without variables but those that have a default, as in slime's scripts/models"
        )
    return words


def _default(word: str) -> str:
    """Return what `${NAME:-default}` stands for where NAME is not set."""
    inner = word[2:-1] if word.startswith("${") and word.endswith("}") else ""
    return inner.partition(":-")[2] if ":-" in inner else word


def _require_runnable(config: TrialConfig) -> None:
    refuse(
        config,
        "slime",
        {
            "machine.compile": "leave it out",
            "recipe.filters.curriculum": "it shuffles the prompts; set 'none'",
        },
    )
    if config.task.name in EMBEDDED:
        raise InputError(
            f"task '{config.task.name}' with --trainer slime: it needs a model's folder with a tokenizer of its own"
        )
    require_equal_shares(config, config.machine.gpus)
