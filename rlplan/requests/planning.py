"""What is asked before anything runs: of `rlplan propose`, `preview` and `price`."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

import typer

from rlplan.requests import options
from rlplan.requests.completing import trainers
from rlplan.requests.request import StoredRequest


@dataclass(frozen=True)
class ProposeRequest(StoredRequest):
    """Price and rank every allocation for a budget, split pilot and final, and store the plan.

    Example: rlplan propose --budget 5000 --model qwen3-8b --gpu h100 --gpus 64
    """

    budget: Annotated[float | None, options.money("--budget", "GPU-hours for pilots and final run together.")] = None
    _: KW_ONLY
    model: options.CatalogueModelOption = None
    gpu: options.GpuOption = None
    gpus: Annotated[int | None, options.whole("--gpus", "How many GPUs there are.")] = None
    gpus_per_trial: Annotated[int | None, options.whole("--gpus-per-trial", "How many GPUs the final run gets.")] = None
    within: options.WithinOption = None
    response_tokens: options.ResponseTokensOption = None
    mean_response_tokens: options.MeanResponseOption = None
    from_log: options.FromLogOption = None
    script: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="<script>",
            help="What starts a trainer: its workload counts, its n and B are the baseline.",
        ),
    ] = None
    recipe: options.RecipeOption = None
    recipes: options.RecipesOption = None
    models: options.ModelsOption = None
    difficulty: Annotated[str | None, typer.Option(help="easy, medium, hard or mixed problems.")] = None
    pass_rate: Annotated[float | None, options.plain("--pass-rate", "Mean pass rate of the base model.")] = None
    pass_rates_file: Annotated[str | None, typer.Option(help="A file with one pass rate per prompt.")] = None
    pilot_fraction: options.PilotFractionOption = None
    pilot_gpus: options.PilotGpusOption = None
    baseline: Annotated[
        str | None, typer.Option(help="What you would choose otherwise, always rows; else n=8,B=64 or n=8,B=128.")
    ] = None
    learn_from: options.LearnFromOption = None
    task: options.TaskOption = None
    config: options.ConfigOption = None
    top: Annotated[
        int | None, typer.Option(min=1, metavar="<int>", help="How many rows the table shows; JSON and CSV have all.")
    ] = None


@dataclass(frozen=True)
class PreviewRequest(StoredRequest):
    """Simulate the sweep of a plan: expected regret, spend and wall time for several shares of pilots.

    Example: rlplan preview plan-1 --pilot-fractions 0,0.05,0.1,0.2 --draws 100
    """

    plan: options.PlanArgument = None
    policy: options.PolicyOption = "rlplan"
    draws: Annotated[int | None, options.whole("--draws", "Worlds to draw; as many as fit into 12 s without this.")] = (
        None
    )
    pilot_fractions: Annotated[
        str, typer.Option(metavar="<float>,…", help="Shares of the budget for pilots that are compared; 0: none.")
    ] = "0,0.05,0.1,0.2,0.4"
    learn_from: options.LearnFromOption = None
    seed: options.SeedOption = 0


@dataclass(frozen=True)
class PriceRequest(StoredRequest):
    """Price a step: seconds and GPU-hours with an interval, by phase, memory and layout, and what one change would do.

    Example: rlplan price -n 16 -B 128 --model qwen3-8b --gpu h100 --gpus 64 --mean-response-tokens 2400
    """

    rollouts_per_prompt: Annotated[
        int | None, options.whole("--rollouts-per-prompt", "Rollouts per prompt; 16 without it.", short="-n")
    ] = None
    prompts_per_batch: Annotated[
        int | None, options.whole("--prompts-per-batch", "Prompts per batch; 128 without it.", short="-B")
    ] = None
    model: options.CatalogueModelOption = None
    gpu: options.GpuOption = None
    gpus: Annotated[int | None, options.whole("--gpus", "How many GPUs the run has.")] = None
    response_tokens: options.ResponseTokensOption = None
    mean_response_tokens: options.MeanResponseOption = None
    from_log: options.FromLogOption = None
    prompt_tokens: Annotated[float | None, options.plain("--prompt-tokens", "Mean tokens of a prompt.")] = None
    recipe: options.RecipeOption = None
    trainer: Annotated[
        str | None,
        typer.Option(metavar="<name>", help="Whose trainer: how fast it is was measured.", autocompletion=trainers),
    ] = None
    difficulty: Annotated[str | None, typer.Option(help="easy, medium, hard or mixed problems.")] = None
    task: options.TaskOption = None
    measure: Annotated[
        bool, typer.Option("--measure", help="Train three steps here, and store what they took as this set-up's price.")
    ] = False
    problems: Annotated[
        str | None, typer.Option(metavar="<file>", help="What --measure trains on: JSONL of {prompt, answer}.")
    ] = None
    checkpoint: Annotated[
        str | None, typer.Option(metavar="<folder>", help="The model that --measure trains, a local checkpoint.")
    ] = None
    reward: options.RewardOption = None
    forget: Annotated[
        str | None,
        typer.Option(metavar="<run>", help="Take back what a run, a sweep or --measure taught of prices."),
    ] = None
    config: options.ConfigOption = None
    runs: Annotated[
        Path | None, typer.Argument(metavar="[RUNS.csv]", help="A table of runs instead; see docs/costs-table.md.")
    ] = None
