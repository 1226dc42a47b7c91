"""`rlplan adopt`: what was read of runs, and what became of them."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from planner.axes import format_axes
from rlplan.actions.adopting import Adopted, AdoptedRun, adopt
from rlplan.wording.draw import ROWS, Canvas, Cells, Column, Invocation, NextStep, Part, next_steps, table_of
from rlplan.wording.numbers import hours, plural, rate

SHOWN_LINES = 3  # of what is lacking and of what is odd, on the first screen


answer = adopt


def parts(adopted: Adopted, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw the runs as they were read, and what became of them."""
    rows, in_full = adopted.rows, invocation.explain
    yield from canvas.lines(_what(adopted), "bold")
    yield ""
    alike = Counter(row.entry.run.path.name for row in rows)
    # With where it is, if others are called so too.
    names = {path: path.name if alike[path.name] == 1 else str(path) for path in (row.entry.run.path for row in rows)}
    shown = rows if in_full else rows[:ROWS]
    yield table_of(shown, _columns(adopted, names, in_full=in_full), canvas)
    if hidden := len(rows) - len(shown):
        yield canvas.line(f"{plural(hidden, 'run')} not shown", "dim")
    lacking = [f"{names[path]}: not read, so give {', '.join(flags)}." for path, flags in adopted.missing.items()]
    for text in lacking if in_full else lacking[:SHOWN_LINES]:
        yield from canvas.lines(text)
    yield from next_steps([*_steps(adopted, shown, invocation)], canvas)


def _columns(adopted: Adopted, names: Mapping[Path, str], *, in_full: bool) -> list[Column[AdoptedRun]]:
    varied = any(row.entry.axes for row in adopted.rows)
    return [
        Column("run", lambda row: names[row.entry.run.path], Cells.PATHS),
        Column("trainer", lambda row: row.entry.run.trainer or "-", Cells.NAMES),
        Column("n", lambda row: _or_ask(row.entry.settings.rollouts_per_prompt)),
        Column("B", lambda row: _or_ask(row.entry.settings.prompts_per_batch)),
        Column("lr", lambda row: "?" if (lr := row.entry.settings.learning_rate) is None else rate(lr)),
        Column("axes", lambda row: format_axes(row.entry.axes), Cells.NAMES, shown=varied),
        Column("GPUs", lambda row: _or_ask(row.entry.settings.gpus)),
        Column("steps", lambda row: f"{row.entry.run.last_step:,}"),
        Column("GPU-h", lambda row: "?" if row.entry.settings.gpus is None else hours(row.entry.gpu_hours)),
        Column("scores", lambda row: len(row.entry.run.scores)),
        Column("last", lambda row: f"{s[-1].score:.3f}" if (s := row.entry.run.scores) else "-"),
        Column("score is", lambda row: row.entry.run.score or "-", Cells.PATHS, shown=in_full, gives_way=True),
        Column("trial", lambda row: row.trial or "-", Cells.NAMES, shown=in_full and adopted.sweep is not None),
    ]


def _steps(adopted: Adopted, shown: Sequence[AdoptedRun], invocation: Invocation) -> Iterator[NextStep]:
    """Yield what can be typed next: the answer of a sweep, else what stores the runs or does without their settings."""
    if adopted.sweep is not None:
        yield invocation.step("recommend", adopted.sweep, "what to run, and how sure that is")
        yield invocation.step("rank", adopted.sweep, "all of them, ranked")
        return  # to explain them once more would store them once more
    if adopted.missing:
        runs = shlex.join(["rlplan", "fit", *(str(row.entry.run.path) for row in shown)])
        yield NextStep(runs, "their curves, which need no settings")
    else:
        yield invocation.without("stores them", "--dry-run")
    if not invocation.explain:
        yield invocation.explained("which series are the scores")


def _what(adopted: Adopted) -> str:
    """Say what became of the runs."""
    runs = plural(len(adopted.entries), "run")
    times = adopted.times_price
    whose = "Its" if len(adopted.entries) == 1 else "Their"
    off = "" if times is None else f" {whose} steps took {times:.2g} times what they were priced at."
    priced = f"{off} The steps of {plural(adopted.prices, 'run')} count for prices now." if adopted.prices else ""
    if adopted.sweep is None:
        return f"{runs} read.{priced}"
    trials = sum(trial is not None for trial in adopted.trials)
    return f"{runs} read: {plural(trials, 'trial')} of {adopted.sweep}.{priced}"


def _or_ask(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"
