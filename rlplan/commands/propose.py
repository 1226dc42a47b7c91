"""`rlplan propose`: price and rank every allocation for a budget, and store the plan."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.commands.completing import gpus, models, recipes, tasks
from rlplan.commands.options import DatabaseOption, FormatOption, ModelsOption, RecipesOption, gpu_hours, names, number
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def propose(
    budget: Annotated[
        str | None, typer.Option(metavar="<gpu-hours>", help="GPU-hours for pilots and final run together.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A model of the catalogue, or a path to a config.json.", autocompletion=models)
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(help="A GPU of the catalogue, or your own in rlplan.toml.", autocompletion=gpus)
    ] = None,
    gpus: Annotated[str | None, typer.Option(metavar="<int>", help="How many GPUs there are.")] = None,
    gpus_per_trial: Annotated[str | None, typer.Option(metavar="<int>", help="How many GPUs one run gets.")] = None,
    response_tokens: Annotated[str | None, typer.Option(metavar="<int>", help="Most tokens of a response.")] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="A recipe, such as grpo or scalerl, or a path to a .toml file.", autocompletion=recipes),
    ] = None,
    recipes: RecipesOption = None,
    models: ModelsOption = None,
    difficulty: Annotated[str | None, typer.Option(help="easy, medium, hard or mixed problems.")] = None,
    pass_rate: Annotated[str | None, typer.Option(metavar="<float>", help="Mean pass rate of the base model.")] = None,
    pass_rates_file: Annotated[str | None, typer.Option(help="A file with one pass rate per prompt.")] = None,
    task: Annotated[
        str | None, typer.Option(help="An embedded task, on this machine's CPU.", autocompletion=tasks)
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A configuration file; ./rlplan.toml is read without this.")
    ] = None,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
    top: Annotated[int, typer.Option(min=1, help="How many rows the table shows; JSON and CSV have all.")] = 12,
) -> None:
    """Price and rank every allocation for a budget, split pilot and final, and store the plan.

    Example: rlplan propose --budget 5000 --model qwen3-8b --gpu h100 --gpus 64
    """
    from rlplan.actions.proposing import load_configuration, make_plan  # noqa: PLC0415
    from rlplan.printing.plan_output import print_plan  # noqa: PLC0415

    resolved = load_configuration(
        config,
        task,
        {
            "budget.gpu_hours": ("--budget", gpu_hours(budget)),
            "workload.model": ("--model", model),
            "workload.response_tokens": ("--response-tokens", number(response_tokens)),
            "workload.difficulty": ("--difficulty", difficulty),
            "workload.pass_rate": ("--pass-rate", number(pass_rate)),
            "workload.pass_rates_file": ("--pass-rates-file", pass_rates_file),
            "hardware.gpu": ("--gpu", gpu),
            "hardware.gpus": ("--gpus", number(gpus)),
            "hardware.gpus_per_trial": ("--gpus-per-trial", number(gpus_per_trial)),
            "recipe.name": ("--recipe", recipe),
            "axes.recipes": ("--recipes", names(recipes)),
            "axes.models": ("--models", names(models)),
        },
    )
    print_plan(make_plan(resolved, db), format, top, db)
