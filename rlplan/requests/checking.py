"""What is asked before a launch: of `check` about a script, of `fits` about a model, of `doctor` about a machine."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from rlplan.requests import options
from rlplan.requests.flags import argument, flag, money, toggle
from rlplan.requests.request import Request, StoredRequest


@dataclass(frozen=True)
class CheckRequest(StoredRequest):
    """Judge what a script would launch: memory, time, money, waste, and three changes. Exit code 5 on a red flag.

    Nothing in the script is executed.

    Example: rlplan check run_grpo.sh --gpu h100 --pass-rate 0.3
    """

    files: list[Path] | Any = argument(
        "A script or settings of verl, TRL, prime-rl, OpenRLHF, ….", "FILE…", default=...
    )
    _: KW_ONLY
    rollouts_per_prompt: int | None = flag("Rollouts per prompt, in place of the script's.", short="-n")
    prompts_per_batch: int | None = flag("Prompts per batch, in place of the script's.", short="-B")
    steps: int | None = flag("How many batches the run has.")
    learning_rate: float | None = flag("In place of the script's.")
    model: str | None = options.catalogue_model()
    gpu: str | None = options.gpu()
    gpus: int | None = options.gpus()
    response_tokens: int | None = options.response_tokens()
    mean_response_tokens: float | None = options.mean_response()
    turns: int | None = options.turns()
    tool_seconds: float | None = options.tool_seconds()
    from_log: Path | str | None = options.from_log()
    prompts: int | None = options.prompts()
    validation_problems: int | None = flag("How many problems a validation has.", key="validation.problems")
    pass_rate: float | None = options.pass_rate()
    pass_rates_file: str | None = options.pass_rates_file()
    difficulty: str | None = options.difficulty()
    budget: float | None = money("GPU-hours: what the script would reach with them.", key="budget.gpu_hours")
    task: str | None = options.task()
    fix: bool = toggle("Write a copy with the advised values: NAME.checked.sh.")
    config: Path | str | None = options.config()


@dataclass(frozen=True)
class FitsRequest(Request):
    """Say whether training a model and generating with it fit some GPUs. Exit code 5 where they do not.

    Example: rlplan fits qwen3-8b --gpus 8 --gpu h100
    """

    EXPLAINS = False

    model: str = argument("A model of the catalogue, or a path to a config.json.", default=...)
    _: KW_ONLY
    gpu: str | None = options.gpu()
    gpus: int | None = flag("How many GPUs the run has; 8 without it.")
    response_tokens: int | None = options.response_tokens()
    lora_rank: int | None = flag("Rank of LoRA adapters, where these train.")
    config: Path | str | None = options.config()


@dataclass(frozen=True)
class DoctorRequest(StoredRequest):
    """Say what this machine can run, what is missing and how to get it; exits with 3 when no sweep can run.

    Example: rlplan doctor
    """
