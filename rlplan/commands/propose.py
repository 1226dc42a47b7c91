"""`rlplan propose`: price and rank every allocation for a budget, and store the plan."""

from typing import Annotated

import typer

from rlplan.commands import options
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def propose(
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
    recipe: options.RecipeOption = None,
    recipes: options.RecipesOption = None,
    models: options.ModelsOption = None,
    difficulty: Annotated[str | None, typer.Option(help="easy, medium, hard or mixed problems.")] = None,
    pass_rate: Annotated[float | None, options.plain("--pass-rate", "Mean pass rate of the base model.")] = None,
    pass_rates_file: Annotated[str | None, typer.Option(help="A file with one pass rate per prompt.")] = None,
    pilot_fraction: options.PilotFractionOption = None,
    pilot_gpus: options.PilotGpusOption = None,
    baseline: Annotated[
        str | None, typer.Option(help="What you would choose otherwise, always a row: n=16,B=128 unless you say so.")
    ] = None,
    learn_from: options.LearnFromOption = None,
    task: options.TaskOption = None,
    config: options.ConfigOption = None,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
    top: Annotated[int, typer.Option(min=1, help="How many rows the table shows; JSON and CSV have all.")] = 12,
) -> None:
    """Price and rank every allocation for a budget, split pilot and final, and store the plan.

    Example: rlplan propose --budget 5000 --model qwen3-8b --gpu h100 --gpus 64
    """
    asked = dict(locals())
    from rlplan.actions.configuring import flagged, load_configuration  # noqa: PLC0415
    from rlplan.actions.proposing import make_plan  # noqa: PLC0415
    from rlplan.printing.plan_output import print_plan  # noqa: PLC0415

    plan = make_plan(load_configuration(config, task, flagged(asked)), db, learn_from=learn_from)
    print_plan(plan, format, top, db)
