"""`rlplan price`: what a step of one configuration costs, and what one change would do; or a table of runs."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.commands import options
from rlplan.commands.completing import trainers
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def price(
    runs: Annotated[
        Path | None, typer.Argument(metavar="[RUNS.csv]", help="A table of runs instead; see docs/costs-table.md.")
    ] = None,
    rollouts_per_prompt: Annotated[
        int | None, options.whole("--rollouts-per-prompt", "Rollouts per prompt; 16 without it.", short="-n")
    ] = None,
    prompts_per_batch: Annotated[
        int | None, options.whole("--prompts-per-batch", "Prompts per batch; 128 without it.", short="-B")
    ] = None,
    model: options.CatalogueModelOption = None,
    gpu: options.GpuOption = None,
    gpus: Annotated[int | None, options.whole("--gpus", "How many GPUs the run has.")] = None,
    response_tokens: options.ResponseTokensOption = None,
    mean_response_tokens: options.MeanResponseOption = None,
    prompt_tokens: Annotated[float | None, options.plain("--prompt-tokens", "Mean tokens of a prompt.")] = None,
    recipe: options.RecipeOption = None,
    trainer: Annotated[
        str | None,
        typer.Option(metavar="<name>", help="Whose trainer: how fast it is was measured.", autocompletion=trainers),
    ] = None,
    difficulty: Annotated[str | None, typer.Option(help="easy, medium, hard or mixed problems.")] = None,
    task: options.TaskOption = None,
    forget: Annotated[
        str | None, typer.Option(metavar="<run>", help="Take back what an adopted run, or a sweep, taught of prices.")
    ] = None,
    config: options.ConfigOption = None,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
) -> None:
    """Price a step: seconds and GPU-hours with an interval, by phase, memory and layout, and what one change would do.

    Example: rlplan price -n 16 -B 128 --model qwen3-8b --gpu h100 --gpus 64 --mean-response-tokens 2400
    """
    asked = dict(locals())
    from rlplan.actions.configuring import flagged, load_configuration  # noqa: PLC0415
    from rlplan.actions.pricing import price_one, price_table  # noqa: PLC0415
    from rlplan.printing.price_output import print_forgotten, print_price, print_runs  # noqa: PLC0415

    if forget is not None:
        from rlplan.actions.forgetting import forget_prices  # noqa: PLC0415

        print_forgotten(forget_prices(forget, db), format)
        return
    if runs is not None:
        print_runs(price_table(runs), format)
        return
    resolved = load_configuration(config, task, flagged(asked) | {"trainer.name": ("--trainer", trainer)})
    print_price(price_one(resolved, rollouts_per_prompt, prompts_per_batch, db), format)
