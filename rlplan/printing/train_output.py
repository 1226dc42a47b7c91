"""Prints a trained run: its validations and how it ended for a person, JSON or CSV for a program."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from budgets.hardware import SECONDS_PER_HOUR
from rlplan.actions.train_folder import CURVE
from rlplan.actions.training import TrainedRun, resuming
from rlplan.exits import ExitCode
from rlplan.wording.console import print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.numbers import duration, steps
from rlplan.wording.sparkline import thinned
from rlplan.wording.tables import Column, table_of
from rlplan.wording.terminal import harmless, tell
from runner.ports.backend import Point
from runner.training.trial import COLUMNS

MOST_ROWS = 12  # of the table; curve.csv has all


def print_trained(trained: TrainedRun, format: Format) -> int:
    """Print the result, or how to go on with what was interrupted, and return the exit code."""
    if trained.interrupted:
        step = trained.history.last.optimizer_step if trained.history.last else 0
        tell(f"stopped after step {step:,} of {trained.run.update_steps:,}; go on with `{resuming(trained.folder)}`")
        return ExitCode.INTERRUPTED
    if format is Format.JSON:
        print_json(trained_data(trained))
    elif format is Format.CSV:
        sys.stdout.write((trained.folder / CURVE).read_text(encoding="utf-8"))
    else:
        rows = thinned(trained.history.scored, MOST_ROWS)
        print_drawn(lambda canvas: [table_of(rows, TABLE, canvas), ""])
        sys.stdout.writelines(f"{harmless(line)}\n" for line in _closing(trained))  # whole, so that they can be pasted
    return ExitCode.DONE


def trained_data(trained: TrainedRun) -> dict[str, Any]:
    """Return the run as JSON holds it."""
    trial, scored = trained.run.trial, trained.history.scored
    return {
        "task": trial.task.name,
        "recipe": trial.recipe.name,
        "rollouts_per_prompt": trial.rollouts_per_prompt,
        "prompts_per_batch": trial.prompts_per_batch,
        "growth": trial.growth,
        "update_steps": trained.run.update_steps,
        "learning_rate": trial.learning_rate,
        "seed": trial.seed,
        "folder": str(trained.folder),
        "points": [_point_data(point) for point in scored],
        "final": _point_data(scored[-1]) if scored else None,
        "flags": [
            {"flag": name, "first_step": seen.first_step, "steps": seen.steps}
            for name, seen in trained.history.flags.items()
        ],
    }


def _point_data(point: Point) -> dict[str, Any]:
    return {
        "step": point.optimizer_step,
        **{name: getattr(point, name) for name in COLUMNS},
        "further_scores": point.further_scores,
    }


def _closing(trained: TrainedRun) -> list[str]:
    trial, last, scored = trained.run.trial, trained.history.last, trained.history.scored
    lines = []
    for name, seen in trained.history.flags.items():
        times = "once" if seen.steps == 1 else f"{seen.steps:,} times"
        lines.append(f"{name}: {times}, first at step {seen.first_step:,}")
    if last is not None and scored:
        at = "" if scored[-1] is last else f" (of step {scored[-1].optimizer_step:,})"
        lines.append(
            f"{Path(trial.task.name).stem}: score {score_of(scored[-1])}{at} after {last.optimizer_step:,} updates, "
            f"{last.rollouts:,} rollouts, {duration(last.seconds / SECONDS_PER_HOUR)}"
        )
    return [*lines, f"where this curve goes: rlplan fit {shlex.quote(str(trained.folder / CURVE))}"]


def score_of(point: Point) -> str:
    """Write a score with its standard error."""
    error = point.score_standard_error
    return f"{point.score:.3f}" + (f" ± {error:.3f}" if error is not None else "")


TABLE: Sequence[Column[Point]] = (
    Column("step", lambda point: steps(point.optimizer_step)),
    Column("rollouts", lambda point: f"{point.rollouts:,}"),
    Column("tokens", lambda point: f"{point.tokens:,}"),
    Column("time", lambda point: duration(point.seconds / SECONDS_PER_HOUR)),
    Column("score", score_of),
)
