"""What is asked before a launch: of `rlplan check` about a script, of `fits` about a model's memory."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from rlplan.requests import options
from rlplan.requests.request import Request, StoredRequest


@dataclass(frozen=True)
class CheckRequest(StoredRequest):
    """Judge what a script would launch: memory, time, money, waste, and three changes. Exit code 5 on a red flag.

    Nothing in the script is executed.

    Example: rlplan check run_grpo.sh --gpu h100 --pass-rate 0.3
    """

    files: Annotated[
        list[Path] | Any,
        typer.Argument(metavar="FILE…", help="A script or settings of verl, TRL, prime-rl, OpenRLHF, …."),
    ]
    _: KW_ONLY
    rollouts_per_prompt: Annotated[
        int | None, options.whole("--rollouts-per-prompt", "Rollouts per prompt, in place of the script's.", short="-n")
    ] = None
    prompts_per_batch: Annotated[
        int | None, options.whole("--prompts-per-batch", "Prompts per batch, in place of the script's.", short="-B")
    ] = None
    steps: Annotated[int | None, options.whole("--steps", "How many batches the run has.")] = None
    learning_rate: Annotated[float | None, options.plain("--learning-rate", "In place of the script's.")] = None
    model: options.CatalogueModelOption = None
    gpu: options.GpuOption = None
    gpus: Annotated[int | None, options.whole("--gpus", "How many GPUs the run has.")] = None
    response_tokens: options.ResponseTokensOption = None
    mean_response_tokens: options.MeanResponseOption = None
    from_log: options.FromLogOption = None
    prompt_set_size: Annotated[int | None, options.whole("--prompt-set-size", "How many prompts there are.")] = None
    validation_problems: Annotated[
        int | None, options.whole("--validation-problems", "How many problems a validation has.")
    ] = None
    pass_rate: Annotated[float | None, options.plain("--pass-rate", "Mean pass rate of the base model.")] = None
    pass_rates_file: Annotated[str | None, typer.Option(help="A file with one pass rate per prompt.")] = None
    difficulty: Annotated[str | None, typer.Option(help="easy, medium, hard or mixed problems.")] = None
    budget: Annotated[float | None, options.money("--budget", "GPU-hours: what the script would reach with them.")] = (
        None
    )
    fix: Annotated[bool, typer.Option("--fix", help="Write a copy with the advised values: NAME.checked.sh.")] = False
    config: options.ConfigOption = None


@dataclass(frozen=True)
class FitsRequest(Request):
    """Say whether training a model and generating with it fit some GPUs. Exit code 5 where they do not.

    Example: rlplan fits qwen3-8b --gpus 8 --gpu h100
    """

    EXPLAINS = False

    model: Annotated[str, typer.Argument(help="A model of the catalogue, or a path to a config.json.")]
    _: KW_ONLY
    gpu: options.GpuOption = None
    gpus: Annotated[int | None, options.whole("--gpus", "How many GPUs the run has; 8 without it.")] = None
    response_tokens: options.ResponseTokensOption = None
    lora_rank: Annotated[int | None, options.whole("--lora-rank", "Rank of LoRA adapters, where these train.")] = None
    config: options.ConfigOption = None
