"""What was made elsewhere: `rlplan fit` and `watch` read its logs, `adopt` takes its runs, `replay` plays them."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.requests import options
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def watch(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(help="A log, a table or a folder that `rlplan fit` reads.")],
    x: options.XColumnOption = None,
    y: options.YColumnOption = None,
    by: options.ByColumnOption = None,
    percent: options.PercentOption = False,
    answers: options.AnswersOption = None,
    end: Annotated[
        float | None, options.plain("--end", "Where the run is to end, in x: what is left to win is told.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Read what is there, and end.")] = False,
    every: Annotated[float, options.plain("--every", "Seconds between two looks.")] = 10.0,
    format: options.FormatOption = Format.TABLE,
    explain: options.ExplainOption = False,
) -> int:
    """Follow a run: a line a validation, or JSON lines. Exit code 5 on a warning, at which it ends.

    Example: rlplan watch runs/verl.log --answers 2000 --end 400
    """
    asked = dict(locals())
    from rlplan.actions.watching import WatchRequest, followed  # noqa: PLC0415
    from rlplan.printing.watch_output import print_watched  # noqa: PLC0415

    called = options.invocation(context, DEFAULT_DATABASE, explain)
    return print_watched(followed(WatchRequest.of(asked)), run, format, called, once=once)


def adopt(
    context: typer.Context,
    runs: Annotated[list[Path], typer.Argument(help="A run's folder with its log and settings, or its log alone.")],
    rollouts_per_prompt: Annotated[int | None, options.whole("--rollouts-per-prompt", "n, where it is unread.")] = None,
    prompts_per_batch: Annotated[int | None, options.whole("--prompts-per-batch", "B, where it is unread.")] = None,
    learning_rate: Annotated[float | None, options.plain("--learning-rate", "Where it is unread.")] = None,
    recipe: Annotated[str | None, typer.Option(metavar="<name>|<file>", help="Of all runs.")] = None,
    model: Annotated[str | None, typer.Option(metavar="<name>|<folder>", help="Of all runs, by the catalogue.")] = None,
    gpus: Annotated[int | None, options.whole("--gpus", "GPUs of each run, where that is unread.")] = None,
    gpu: Annotated[str | None, typer.Option(metavar="<name>", help="Which GPU they ran on; no log says it.")] = None,
    settings: Annotated[
        Path | None, typer.Option(metavar="<file>", help="Settings of all runs: YAML, TOML, JSON or a shell script.")
    ] = None,
    score: Annotated[
        list[str] | None, typer.Option(metavar="<series>", help="What serves as the score; one for each trainer.")
    ] = None,
    percent: Annotated[bool, typer.Option("--percent", help="Scores are percentages: divide them by 100.")] = False,
    seconds_per_step: Annotated[float | None, options.plain("--seconds-per-step", "Where no log times them.")] = None,
    validation_problems: Annotated[
        int | None, options.whole("--validation-problems", "Problems behind each score; its error is then known.")
    ] = None,
    validation_samples: Annotated[int | None, options.whole("--validation-samples", "Answers to each of them.")] = None,
    budget: Annotated[float | None, options.money("--budget", "GPU-hours in all, with those of the runs.")] = None,
    target: Annotated[float | None, options.money("--target", "GPU-hours of the final run.")] = None,
    problems: Annotated[
        str | None, typer.Option(metavar="<file>", help="What further trials train on: JSONL of {prompt, answer}.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="<folder>", help="The base model that further trials start from.")
    ] = None,
    reward: options.RewardOption = None,
    validation: options.ValidationOption = None,
    trainer: options.TrainerOption = None,
    folder: Annotated[Path | None, typer.Option(metavar="<folder>", help="Checkpoints of further trials.")] = None,
    config: options.ConfigOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what was read, and store nothing.")] = False,
    db: options.DatabaseOption = DEFAULT_DATABASE,
    format: options.FormatOption = Format.TABLE,
    explain: options.ExplainOption = False,
) -> int:
    """Take runs that exist, of any trainer, as finished trials of a sweep: a ranking without training anything.

    Example: rlplan adopt runs/* --gpu h100 --validation-problems 500
    """
    asked = dict(locals())
    from rlplan.actions.adopting import AdoptRequest  # noqa: PLC0415
    from rlplan.actions.adopting import adopt as adopted  # noqa: PLC0415
    from rlplan.printing.adopt_output import print_adopted  # noqa: PLC0415

    return print_adopted(adopted(AdoptRequest.of(asked), db), format, options.invocation(context, db, explain))
