"""Before anything runs: `rlplan propose` makes a plan."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.requests import options
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def propose(
    context: typer.Context,
    budget: Annotated[float | None, options.money("--budget", "GPU-hours for pilots and final run together.")] = None,
    model: options.CatalogueModelOption = None,
    gpu: options.GpuOption = None,
    gpus: Annotated[int | None, options.whole("--gpus", "How many GPUs there are.")] = None,
    gpus_per_trial: Annotated[
        int | None, options.whole("--gpus-per-trial", "How many GPUs the final run gets.")
    ] = None,
    within: options.WithinOption = None,
    response_tokens: options.ResponseTokensOption = None,
    mean_response_tokens: options.MeanResponseOption = None,
    from_log: options.FromLogOption = None,
    script: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="<script>",
            help="What starts a trainer: its workload counts, its n and B are the baseline.",
        ),
    ] = None,
    recipe: options.RecipeOption = None,
    recipes: options.RecipesOption = None,
    models: options.ModelsOption = None,
    difficulty: Annotated[str | None, typer.Option(help="easy, medium, hard or mixed problems.")] = None,
    pass_rate: Annotated[float | None, options.plain("--pass-rate", "Mean pass rate of the base model.")] = None,
    pass_rates_file: Annotated[str | None, typer.Option(help="A file with one pass rate per prompt.")] = None,
    pilot_fraction: options.PilotFractionOption = None,
    pilot_gpus: options.PilotGpusOption = None,
    baseline: Annotated[
        str | None, typer.Option(help="What you would choose otherwise, always rows; else n=8,B=64 or n=8,B=128.")
    ] = None,
    learn_from: options.LearnFromOption = None,
    task: options.TaskOption = None,
    config: options.ConfigOption = None,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
    top: Annotated[
        int | None, typer.Option(min=1, metavar="<int>", help="How many rows the table shows; JSON and CSV have all.")
    ] = None,
    explain: options.ExplainOption = False,
) -> None:
    """Price and rank every allocation for a budget, split pilot and final, and store the plan.

    Example: rlplan propose --budget 5000 --model qwen3-8b --gpu h100 --gpus 64
    """
    asked = dict(locals())
    from rlplan.actions.proposing import asked_configuration, make_plan  # noqa: PLC0415
    from rlplan.printing.plan_output import print_plan  # noqa: PLC0415

    plan = make_plan(asked_configuration(asked), db, learn_from=learn_from)
    print_plan(plan, format, top, options.invocation(context, db, explain))
