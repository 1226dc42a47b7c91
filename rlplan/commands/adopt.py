"""`rlplan adopt`: what was read of runs, and what became of them."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from planner.axes import format_axes
from rlplan.actions.adopting import Adopted, AdoptedRun, adopt
from rlplan.wording.draw import ROWS, Canvas, Cells, Column, Invocation, NextStep, Part, next_steps, table_of
from rlplan.wording.numbers import hours, plural, rate

SHOWN_LINES = 3  # of what is lacking and of what is odd, on the first screen


answer = adopt


def parts(adopted: Adopted, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw the runs as they were read, and what became of them."""
    runs, in_full = adopted.runs, invocation.explain
    yield from canvas.lines(_summary(adopted), "bold")
    yield ""
    alike = Counter(run.entry.run.path.name for run in runs)
    # With where it is, if others are called so too.
    names = {path: path.name if alike[path.name] == 1 else str(path) for path in (run.entry.run.path for run in runs)}
    shown = runs if in_full else runs[:ROWS]
    yield table_of(shown, _columns(adopted, names, in_full=in_full), canvas)
    if hidden := len(runs) - len(shown):
        yield canvas.line(f"{plural(hidden, 'run')} not shown", "dim")
    lacking = [
        f"{names[run.entry.run.path]}: not read, so give {', '.join(run.missing)}." for run in runs if run.missing
    ]
    for text in lacking if in_full else lacking[:SHOWN_LINES]:
        yield from canvas.lines(text)
    yield from next_steps([*_steps(adopted, invocation)], canvas)


def _columns(adopted: Adopted, names: Mapping[Path, str], *, in_full: bool) -> list[Column[AdoptedRun]]:
    varied = any(run.axes for run in adopted.runs)
    return [
        Column("run", lambda run: names[run.entry.run.path], Cells.PATHS),
        Column("trainer", lambda run: run.trainer or "-", Cells.NAMES),
        Column("n", lambda run: _or_ask(run.rollouts_per_prompt)),
        Column("B", lambda run: _or_ask(run.prompts_per_batch)),
        Column("lr", lambda run: "?" if run.learning_rate is None else rate(run.learning_rate)),
        Column("axes", lambda run: format_axes(run.entry.axes), Cells.NAMES, shown=varied),
        Column("GPUs", lambda run: _or_ask(run.gpus)),
        Column("steps", lambda run: f"{run.update_steps:,}"),
        Column("GPU-h", lambda run: "?" if run.gpus is None else hours(run.gpu_hours)),
        Column("scores", lambda run: run.points),
        Column("last", lambda run: "-" if run.last_score is None else f"{run.last_score:.3f}"),
        Column("score is", lambda run: run.score or "-", Cells.PATHS, shown=in_full, gives_way=True),
        Column("trial", lambda run: run.trial or "-", Cells.NAMES, shown=in_full and adopted.sweep is not None),
    ]


def _steps(adopted: Adopted, invocation: Invocation) -> Iterator[NextStep]:
    """Yield what can be typed next: the answer of a sweep, else what stores the runs or does without their settings."""
    if adopted.sweep is not None:
        yield invocation.step("recommend", adopted.sweep, "what to run, and how sure that is")
        yield invocation.step("rank", adopted.sweep, "all of them, ranked")
        return  # to explain them once more would store them once more
    if any(run.missing for run in adopted.runs):
        shown = adopted.runs if invocation.explain else adopted.runs[:ROWS]
        paths = shlex.join(["rlplan", "fit", *(run.run for run in shown)])
        yield NextStep(paths, "their curves, which need no settings")
    else:
        yield invocation.without("stores them", "--dry-run")
    if not invocation.explain:
        yield invocation.explained("which series are the scores")


def _summary(adopted: Adopted) -> str:
    """Say what became of the runs."""
    runs, priced = plural(len(adopted.runs), "run"), ""
    if adopted.prices:
        whose = "Its" if len(adopted.runs) == 1 else "Their"
        times = adopted.times_price
        priced = "" if times is None else f" {whose} steps took {times:.2g} times what they were priced at."
        priced += f" The steps of {plural(adopted.prices, 'run')} count for prices now."
    if adopted.sweep is None:
        return f"{runs} read.{priced}"
    trials = sum(run.trial is not None for run in adopted.runs)
    return f"{runs} read: {plural(trials, 'trial')} of {adopted.sweep}.{priced}"


def _or_ask(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"
