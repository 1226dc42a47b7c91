"""What is asked of the commands that take what was made elsewhere: logs, runs and tables."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from rlplan.requests import options
from rlplan.requests.request import Request, StoredRequest


@dataclass(frozen=True)
class FitRequest(Request):
    """Fit learning curves and predict where they go, with intervals and a verdict; or a law.

    Example: rlplan fit run.csv --fit-fraction 0.25 --predict-at end --plot fit.html
    """

    files: Annotated[
        list[Path] | Any,  # in Python also one path, a frame, columns, rows, or a pair of arrays (x, scores)
        typer.Argument(help="CSV, JSONL, TensorBoard, any trainer's log as it is, or a run's folder."),
    ]
    _: KW_ONLY
    x: options.XColumnOption = None
    y: options.YColumnOption = None
    by: options.ByColumnOption = None
    percent: options.PercentOption = False
    answers: options.AnswersOption = None
    fit_fraction: Annotated[
        float | None, options.plain("--fit-fraction", "Fit only the first part of the x range.")
    ] = None
    fit_until: Annotated[
        float | None, options.plain("--fit-until", "Fit only the points up to an x.", metavar="<x>")
    ] = None
    cut: Annotated[float | None, options.plain("--cut", "Leave out the points before an x.", metavar="<x>")] = None
    predict_at: Annotated[
        list[str] | Sequence[str | float] | float | None,
        typer.Option(metavar="<x>|end", help="Where to predict; may be repeated. By default 2 and 4 × the last x."),
    ] = None
    level: options.LevelOption = 0.9
    law: Annotated[
        str | None,
        typer.Option(metavar="<law>", help="Fit a law: sigmoid, power or group-size."),
    ] = None
    plot: Annotated[Path | None, typer.Option(metavar="<file>", help="Draw the fits into a .html page.")] = None


@dataclass(frozen=True)
class CompareRequest(Request):
    """Compare two runs or recipes: the difference where their curves end, and what would settle it.

    Example: rlplan compare grpo.csv dapo.csv
    """

    EXPLAINS = False

    files: Annotated[list[Path] | Any, typer.Argument(help="Two files or more that `rlplan fit` reads, a recipe each.")]
    _: KW_ONLY
    by: Annotated[
        str | None, typer.Option(metavar="<column>", help="What tells recipes apart instead, in any number of files.")
    ] = None
    x: options.XColumnOption = None
    y: options.YColumnOption = None
    percent: options.PercentOption = False
    fit_until: Annotated[float | None, options.plain("--fit-until", "Only the points up to an x.", metavar="<x>")] = (
        None
    )
    level: options.LevelOption = 0.9


@dataclass(frozen=True)
class WatchRequest(Request):
    """Follow a run: a line a validation, or JSON lines. Exit code 5 on a warning, at which it ends.

    Example: rlplan watch runs/verl.log --answers 2000 --end 400
    """

    run: Annotated[
        Path, typer.Argument(help="A log, a table, a folder or an address of a run that `rlplan fit` reads.")
    ]
    _: KW_ONLY
    x: options.XColumnOption = None
    y: options.YColumnOption = None
    by: options.ByColumnOption = None
    percent: options.PercentOption = False
    answers: options.AnswersOption = None
    end: Annotated[
        float | None, options.plain("--end", "Where the run is to end, in x, where no progress bar says it.")
    ] = None
    gpus: Annotated[int | None, options.whole("--gpus", "GPUs of the run: what it costs is told.")] = None
    gpu: Annotated[str | None, typer.Option(metavar="<name>", help="Which, for what they cost in dollars.")] = None
    once: Annotated[bool, typer.Option("--once", help="Read what is there, and end.")] = False
    every: Annotated[float, options.plain("--every", "Seconds between two looks.")] = 10.0


@dataclass(frozen=True)
class AdoptRequest(StoredRequest):
    """Take runs that exist, of any trainer, as finished trials of a sweep: a ranking without training anything.

    Example: rlplan adopt runs/* --gpu h100 --validation-problems 500
    """

    runs: Annotated[
        list[Path] | Any, typer.Argument(help="A run's folder with its log and settings, or its log alone.")
    ]
    _: KW_ONLY
    rollouts_per_prompt: Annotated[int | None, options.whole("--rollouts-per-prompt", "n, where it is unread.")] = None
    prompts_per_batch: Annotated[int | None, options.whole("--prompts-per-batch", "B, where it is unread.")] = None
    learning_rate: Annotated[float | None, options.plain("--learning-rate", "Where it is unread.")] = None
    recipe: Annotated[str | None, typer.Option(metavar="<name>|<file>", help="Of all runs.")] = None
    model: Annotated[str | None, typer.Option(metavar="<name>|<folder>", help="Of all runs, by the catalogue.")] = None
    gpus: Annotated[int | None, options.whole("--gpus", "GPUs of each run, where that is unread.")] = None
    gpu: Annotated[str | None, typer.Option(metavar="<name>", help="Which GPU they ran on; no log says it.")] = None
    settings: Annotated[
        Path | None, typer.Option(metavar="<file>", help="Settings of all runs: YAML, TOML, JSON or a shell script.")
    ] = None
    score: Annotated[
        list[str] | Any, typer.Option(metavar="<series>", help="What serves as the score; one for each trainer.")
    ] = None
    percent: Annotated[bool, typer.Option("--percent", help="Scores are percentages: divide them by 100.")] = False
    seconds_per_step: Annotated[float | None, options.plain("--seconds-per-step", "Where no log times them.")] = None
    validation_problems: Annotated[
        int | None, options.whole("--validation-problems", "Problems behind each score; its error is then known.")
    ] = None
    validation_samples: Annotated[int | None, options.whole("--validation-samples", "Answers to each of them.")] = None
    budget: Annotated[float | None, options.money("--budget", "GPU-hours in all, with those of the runs.")] = None
    target: Annotated[float | None, options.money("--target", "GPU-hours of the final run.")] = None
    problems: Annotated[
        str | None, typer.Option(metavar="<file>", help="What further trials train on: JSONL of {prompt, answer}.")
    ] = None
    checkpoint: Annotated[
        str | None, typer.Option(metavar="<folder>", help="The base model that further trials start from.")
    ] = None
    reward: options.RewardOption = None
    validation: options.ValidationOption = None
    trainer: options.TrainerOption = None
    folder: Annotated[Path | None, typer.Option(metavar="<folder>", help="Checkpoints of further trials.")] = None
    config: options.ConfigOption = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what was read, and store nothing.")] = False


@dataclass(frozen=True)
class ReplayRequest(Request):
    """Play a policy over recorded runs: what would it have chosen, and how far short of the best is that?

    Example: rlplan replay runs.csv --budget 10% --target 100 --policy asha --repeat 20
    """

    EXPLAINS = False

    table: Annotated[
        Path | Any,  # in Python a frame too
        typer.Argument(help="A CSV of run, rollouts_per_prompt, prompts_per_batch, seed, gpu_hours, score."),
    ]
    _: KW_ONLY
    budget: Annotated[
        str | float,
        typer.Option(metavar="<gpu-hours>|<percent>%", help="What all pilots may spend; % of the full grid."),
    ]
    target: Annotated[float, options.plain("--target", "Compute of the final run.", metavar="<gpu-hours>")]
    policy: options.PolicyOption = "rlplan"
    seed: options.SeedOption = 0
    workers: Annotated[int, options.whole("--workers", "Trials that are trained at once.")] = 1
    repeat: Annotated[
        int, options.whole("--repeat", "Play it so often, each with the next seed; reports the mean.")
    ] = 1
    learn_from: options.LearnFromOption = None
