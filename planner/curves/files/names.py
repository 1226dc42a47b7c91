"""Which column is meant: by its name, or by a guess when none is given."""

import difflib
import re
from collections.abc import Iterable

import numpy as np

from budgets.errors import InputError, UnknownNameError
from planner.curves.files.table import LISTED, Table, listing
from planner.logs.series import matching

# Scores from the most to the least trusted: plain names, then validation, then training. What trainers call them stands
# in planner/logs/trainers/ and goes before.
SCORES = (
    *("metric", "score", "accuracy", "eval/*avg@*", "eval/*avg_score", "eval/*pass1"),
    *("val:accuracy", "val[-_:/]*accuracy", "val[-_:/]*acc*", "val[-_:/]*score*", "val[-_:/]*reward*"),
    *("validation*accuracy", "validation*acc*", "validation*score*", "validation*reward*"),
    *("test[-_:/]*accuracy", "test[-_:/]*score*", "test[-_:/]*reward*"),
    *("eval[-_:/]accuracy", "eval*accuracy", "eval*score", "eval[-_:/]reward", "eval*[_/]reward", "eval*reward*mean"),
    *("eval*pass@1", "eval*pass@*", "pass@1", "pass_rate", "success_rate", "mean_score"),
    *("train/accuracy", "train/score", "train/reward", "reward", "mean_reward", "reward_mean", "reward/mean"),
    *("train*reward*mean", "acc", "value"),
)

# Step counters of a whole run come before those that a trainer may begin again in every epoch.
COUNTERS = (
    *("global_step", "training/global_step", "trainer/global_step", "train/global_step", "optimizer_step"),
    *("training_step", "progress/step", "step", "steps", "_step", "update_steps", "iteration", "update"),
)
TOTALS = (*("gpu_hours", "compute", "rollouts", "num_rollouts", "episode", "episodes", "total_tokens", "tokens"),)
# The time on a clock is compute only while nothing waits, so it is taken where there is nothing else.
AXES = (*TOTALS, "step", "optimizer_step", "global_step", *COUNTERS, "epoch", "num_tokens", "seconds", "_runtime")

# Columns that say which run a row belongs to.
RUNS = ("run", "run_id", "run_name", "trial", "trial_id", "trial_name", "experiment", "curve", "seed")

# They hold part of a score's name and say something else about it.
_NOT_SCORES = re.compile(
    r"std|[_/]min$|[_/]max$|loss|runtime|per_second|length|num_|count|_time|time/|timing", re.IGNORECASE
)

_DURATIONS = re.compile(r"tim(e|ing)|perf", re.IGNORECASE)


def columns_like(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern fits whole, or else those that end in it after a '/', whatever their case.

    `time/step` and its like are durations, not the step.
    """
    columns = list(names)
    ending = "/" + pattern.casefold()
    return matching(pattern, columns) or [
        name for name in columns if name.casefold().endswith(ending) and not _DURATIONS.match(name)
    ]


def resolve(column: str, table: Table, argument: str, *, text: bool = False) -> str:
    """Find the column that an argument names: exactly, in another case, or by the end of a path that one alone has."""
    names = [*table.columns, *table.text] if text else list(table.columns)
    if column in names:
        return column
    folded = column.casefold()
    matches = [name for name in names if name.casefold() == folded]
    matches = matches or [name for name in names if name.casefold().endswith("/" + folded)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(
            f"{{{argument}}} fits several columns of '{table.name}': {listing(matches)}. Write one in full",
            **{argument: f"'{column}'"},
        )
    if column in table.text:
        raise InputError(
            f"column '{column}' of '{table.name}' holds text, not numbers; columns of numbers are "
            f"{listing(table.columns)}: name one with {{{argument}}}",
            **{argument: None},
        )
    remedy = f"Name a column of '{table.name}' with {{{argument}}}"
    # The nearest names, compared with and without their path, or the first few when none is near.
    whole = {name.casefold(): name for name in names}
    ends = {name.casefold().rpartition("/")[2]: name for name in reversed(names)}
    near = [whole[name] for name in difflib.get_close_matches(folded, whole, cutoff=0.55)]
    near += [ends[name] for name in difflib.get_close_matches(folded.rpartition("/")[2], ends, cutoff=0.7)]
    near = list(dict.fromkeys(near))[:3] or names[:LISTED]
    raise UnknownNameError("column", column, near, remedy, **{argument: None})


def guess_score(table: Table, open_names: list[str]) -> str | None:
    """Choose the score among some columns: validation before training; a lone column whatever its name.

    Several columns of equal standing (two benchmarks, two environments) are for a person to choose from.
    """
    proper = [name for name in open_names if not _NOT_SCORES.search(name)]
    # An unknown prefix comes last: `train/score` must not pass before `eval_reward` because it ends in `score`.
    for match in (matching, columns_like):
        for pattern in SCORES:
            guess = match(pattern, proper)
            if len(guess) == 1:
                return guess[0]
            if guess:
                raise InputError(
                    f"'{table.name}' has several scores: {listing(guess)}; choose one with {{y}}", y="NAME"
                )
    others = {name for pattern in (*AXES, *RUNS) for name in columns_like(pattern, open_names)}
    rest = [name for name in proper if name not in others]
    return rest[0] if len(rest) == 1 else None


def unguessed(role: str, table: Table) -> InputError:
    """Make the error for a column that could not be guessed: of a score, what its column holds instead of numbers."""
    without = [name for name, values in table.columns.items() if not np.isfinite(values).any()]
    for pattern in SCORES if role == "score" else ():
        for name in matching(pattern, [*table.text, *without]):
            wrong = next(filter(_is_text, table.text.get(name, ())), None)
            holds = f"holds {wrong!r}, which is no number" if wrong else "holds no finite number"
            return InputError(
                f"column '{name}' of '{table.name}' {holds}: mend that, or name another with {{y}}", y="NAME"
            )
    return InputError(
        f"no column of '{table.name}' is known as the {role}; its columns of numbers are {listing(table.columns)}. "
        "Name them with {x} {y}",
        x="NAME",
        y="NAME",
    )


def _is_text(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return bool(cell)
    return False
