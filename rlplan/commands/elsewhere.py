"""What was made elsewhere: `rlplan fit` and `watch` read its logs, `adopt` takes its runs, `replay` plays them."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.requests import options
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def fit(
    context: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(help="CSV, JSONL, TensorBoard, any trainer's log as it is, or a run's folder.")
    ],
    x: options.XColumnOption = None,
    y: options.YColumnOption = None,
    by: options.ByColumnOption = None,
    percent: options.PercentOption = False,
    answers: options.AnswersOption = None,
    fit_fraction: Annotated[
        float | None, options.plain("--fit-fraction", "Fit only the first part of the x range.")
    ] = None,
    fit_until: Annotated[
        float | None, options.plain("--fit-until", "Fit only the points up to an x.", metavar="<x>")
    ] = None,
    cut: Annotated[
        str | None, typer.Option(metavar="<x>|auto|published", help="Leave out the points before an x.")
    ] = None,
    predict_at: Annotated[
        list[str] | None,
        typer.Option(metavar="<x>|end", help="Where to predict; may be repeated. By default 2 and 4 × the last x."),
    ] = None,
    level: Annotated[float, options.plain("--level", "How much of the probability an interval holds.")] = 0.9,
    law: Annotated[
        str | None,
        typer.Option(metavar="<law>", help="Fit a law: sigmoid, power, model-size, group-size or value-based."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="<file>", help="Draw the fits into a .html page.")] = None,
    format: options.FormatOption = Format.TABLE,
    explain: options.ExplainOption = False,
) -> int:
    """Fit learning curves and predict where they go, with intervals and a verdict; or a law.

    Example: rlplan fit run.csv --fit-fraction 0.25 --predict-at end --plot fit.html
    """
    asked = dict(locals())
    from rlplan.actions.fit_request import FitRequest  # noqa: PLC0415
    from rlplan.actions.fitting import fit_files  # noqa: PLC0415
    from rlplan.printing.fit_output import print_fits, print_laws  # noqa: PLC0415
    from rlplan.wording.terminal import tell  # noqa: PLC0415

    request, called = FitRequest.of(asked), options.invocation(context, DEFAULT_DATABASE, explain)
    if law is None:
        fits = fit_files(files, request)
        code = print_fits(fits, format, called, undrawn=plot is None)
        if plot is not None and fits.curves:
            from rlplan.web.fits import write_fits  # noqa: PLC0415

            tell(write_fits(fits, plot))
        return code
    from rlplan.actions.law_fitting import fit_law, read_tables  # noqa: PLC0415

    tables, failures = read_tables(files)
    laws = fit_law(tables, request, failures)
    code = print_laws(laws, format, called, undrawn=plot is None)
    if plot is not None and laws.fits:
        from rlplan.web.fits import write_laws  # noqa: PLC0415

        tell(write_laws(laws, plot))
    return code


def compare(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Two files or more that `rlplan fit` reads, a recipe each.")],
    by: Annotated[
        str | None, typer.Option(metavar="<column>", help="What tells recipes apart instead, in any number of files.")
    ] = None,
    x: options.XColumnOption = None,
    y: options.YColumnOption = None,
    percent: options.PercentOption = False,
    fit_until: Annotated[
        float | None, options.plain("--fit-until", "Only the points up to an x.", metavar="<x>")
    ] = None,
    level: Annotated[float, options.plain("--level", "How much of the probability an interval holds.")] = 0.9,
    format: options.FormatOption = Format.TABLE,
) -> int:
    """Compare two runs or recipes: the difference where their curves end, and what would settle it.

    Example: rlplan compare grpo.csv dapo.csv
    """
    from rlplan.actions.fit_request import FitRequest  # noqa: PLC0415
    from rlplan.actions.law_fitting import compare_recipes, read_tables  # noqa: PLC0415
    from rlplan.printing.fit_output import print_comparison  # noqa: PLC0415

    request = FitRequest(x=x, y=y, percent=percent, fit_until=fit_until, level=level)
    tables, failures = read_tables(files)
    called = options.invocation(context, DEFAULT_DATABASE, explain=False)
    return print_comparison(*compare_recipes(tables, by, request, failures), files, format, called)


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
