"""What is asked of the commands that take what was made elsewhere: logs, runs and tables."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from rlplan.requests import options
from rlplan.requests.flags import Request, StoredRequest, argument, flag, money, toggle


@dataclass(frozen=True)
class FitRequest(Request):
    """Fit learning curves and predict where they go, with intervals and a verdict; or a law.

    Example: rlplan fit run.csv --fit-fraction 0.25 --predict-at end --plot fit.html
    """

    files: list[Path] | Any = argument(
        "CSV, JSONL, TensorBoard, any trainer's log as it is, or a run's folder.", default=...
    )  # in Python also one path, a frame, columns, rows, or a pair of arrays (x, scores)
    _: KW_ONLY
    x: str | None = options.x_column()
    y: str | None = options.y_column()
    by: str | None = options.by_column()
    percent: bool = options.percent()
    answers: int | None = options.answers()
    fit_fraction: float | None = flag("Fit only the first part of the x range.", above=0, most=1)
    fit_until: float | None = flag("Fit only the points up to an x.", "<x>", above=0)
    cut: float | None = flag("Leave out the points before an x.", "<x>", least=0)
    predict_at: list[str] | Sequence[str | float] | float | None = flag(
        "Where to predict; may be repeated. By default 2 and 4 × the last x.", "<x>|end"
    )
    level: float = options.level()
    law: str | None = flag("Fit a law: sigmoid, power or group-size.", "<law>")
    plot: Path | None = flag("Draw the fits into a .html page.", "<file>")


@dataclass(frozen=True)
class CompareRequest(Request):
    """Compare two runs or recipes: the difference where their curves end, and what would settle it.

    Example: rlplan compare grpo.csv dapo.csv
    """

    EXPLAINS = False

    files: list[Path] | Any = argument("Two files or more that `rlplan fit` reads, a recipe each.", default=...)
    _: KW_ONLY
    by: str | None = flag("What tells recipes apart instead, in any number of files.", "<column>")
    x: str | None = options.x_column()
    y: str | None = options.y_column()
    percent: bool = options.percent()
    fit_until: float | None = flag("Only the points up to an x.", "<x>", above=0)
    level: float = options.level()


@dataclass(frozen=True)
class WatchRequest(Request):
    """Follow a run: a line a validation, or JSON lines. Exit code 5 on a warning, at which it ends.

    Example: rlplan watch runs/verl.log --answers 2000 --end 400
    """

    run: Path = argument("A log, a table, a folder or an address of a run that `rlplan fit` reads.", default=...)
    _: KW_ONLY
    x: str | None = options.x_column()
    y: str | None = options.y_column()
    by: str | None = options.by_column()
    percent: bool = options.percent()
    answers: int | None = options.answers()
    end: float | None = flag("Where the run is to end, in x, where no progress bar says it.", above=0)
    gpus: int | None = flag("GPUs of the run: what it costs is told.")
    gpu: str | None = flag("Which, for what they cost in dollars.", "<name>")
    once: bool = toggle("Read what is there, and end.")
    every: float = flag("Seconds between two looks.", default=10.0, above=0)


@dataclass(frozen=True)
class AdoptRequest(StoredRequest):
    """Take runs that exist, of any trainer, as finished trials of a sweep: a ranking without training anything.

    Example: rlplan adopt runs/* --gpu h100 --validation-problems 500
    """

    runs: list[Path] | Any = argument("A run's folder with its log and settings, or its log alone.", default=...)
    _: KW_ONLY
    rollouts_per_prompt: int | None = flag("n, where it is unread.", least=2)
    prompts_per_batch: int | None = flag("B, where it is unread.", least=1)
    learning_rate: float | None = flag("Where it is unread.", above=0)
    recipe: str | None = flag("Of all runs.", "<name>|<file>")
    model: str | None = flag("Of all runs, by the catalogue.", "<name>|<folder>")
    gpus: int | None = flag("GPUs of each run, where that is unread.", least=1)
    gpu: str | None = flag("Which GPU they ran on; no log says it.", "<name>")
    settings: Path | None = flag("Settings of all runs: YAML, TOML, JSON or a shell script.", "<file>")
    score: list[str] | Any = flag("What serves as the score; one for each trainer.", "<series>")
    percent: bool = toggle("Scores are percentages: divide them by 100.")
    seconds_per_step: float | None = flag("Where no log times them.", above=0)
    validation_problems: int | None = flag("Problems behind each score; its error is then known.", least=1)
    validation_samples: int | None = flag("Answers to each of them.", least=1)
    budget: float | None = money("GPU-hours in all, with those of the runs.")
    target: float | None = money("GPU-hours of the final run.")
    problems: str | None = flag("What further trials train on: JSONL, CSV or Parquet of {prompt, answer}.", "<file>")
    checkpoint: str | None = flag("The base model that further trials start from.", "<folder>")
    reward: str | None = options.reward()
    validation: str | None = options.validation()
    trainer: str | None = options.trainer()
    folder: Path | None = flag("Checkpoints of further trials.", "<folder>")
    config: Path | str | None = options.config()
    dry_run: bool = toggle("Show what was read, and store nothing.")


@dataclass(frozen=True)
class ReplayRequest(Request):
    """Play a policy over recorded runs: what would it have chosen, and how far short of the best is that?

    Example: rlplan replay runs.csv --total 100 --repeat 10
    Example: rlplan replay runs.csv --budget 10% --target 100 --policy asha --repeat 20
    """

    EXPLAINS = False

    table: Path | Any = argument(
        "A CSV of run, rollouts_per_prompt, prompts_per_batch, seed, gpu_hours, score.", default=...
    )  # in Python a frame too
    _: KW_ONLY
    total: float | None = flag(
        "All GPU-hours: plays a champion, its challengers and the run that goes on.", "<gpu-hours>", above=0
    )
    champion: str | None = flag("What starts; the usual choice without it.", '"n=8,B=64"')
    advised: bool = toggle("Start with the usual choice in place of --champion.")
    budget: str | float | None = flag("What all pilots may spend; % of the full grid.", "<gpu-hours>|<percent>%")
    target: float | None = flag("Compute of the final run.", "<gpu-hours>", above=0)
    policy: str = options.policy()
    seed: int = options.seed()
    workers: int = flag("Trials that are trained at once.", default=1, least=1)
    repeat: int = flag("Play it so often, each with the next seed; reports the mean.", default=1, least=1)
