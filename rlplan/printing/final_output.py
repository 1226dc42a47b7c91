"""Prints a final run: what would be launched, how it stands against its promise, and how it ended."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.axes import named_configuration
from rlplan.exits import ExitCode
from rlplan.reading.finals import FinalStanding, final_data
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.next_steps import Invocation, NextStep, next_steps
from rlplan.wording.numbers import hours, interval, rate
from rlplan.wording.terminal import Canvas, capital, tell

if TYPE_CHECKING:
    from rlplan.actions.launching import Planned

BAND_COLUMNS = ("share", "score", "low", "high")


def print_planned(planned: "Planned", format: Format, invocation: Invocation) -> int:
    """Print what would be launched and what is promised of it; CSV is the promise along the way."""
    if format is Format.JSON:
        print_json(_planned_data(planned))
    elif format is Format.CSV:
        print_csv(BAND_COLUMNS, (dict(zip(BAND_COLUMNS, row, strict=True)) for row in planned.promise.band))
    else:
        print_drawn(lambda canvas: _planned(planned, invocation, canvas))
    return ExitCode.DONE


def _planned_data(planned: "Planned") -> dict[str, Any]:
    run = planned.run
    n, B, axes = run.configuration
    return {
        "sweep": planned.sweep,
        "rollouts_per_prompt": n,
        "prompts_per_batch": B,
        "axes": dict(axes),
        "update_steps": run.update_steps,
        "segment_steps": run.segment_steps,
        "from_step": run.from_step,
        "learning_rate": run.learning_rate,
        "gpu_hours": run.gpu_hours,
        "budget_gpu_hours": run.budget_gpu_hours,
        "promised": asdict(planned.promise.end),
        "band": planned.promise.rows,
        "notes": list(planned.notes),
        "shortfall": planned.shortfall,
    }


def _planned(planned: "Planned", invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    run, end = planned.run, planned.promise.end
    yield from canvas.lines(
        f"{planned.sweep}: {named_configuration(run.configuration)} for {run.update_steps:,} steps at learning rate "
        f"{rate(run.learning_rate)}.",
        "bold",
    )
    yield from canvas.lines(
        f"Expected score at its end {interval(end.score, end.low, end.high)}: the run is held to that forecast."
    )
    yield from canvas.lines(
        f"It takes about {hours(run.gpu_hours)} of the {hours(run.budget_gpu_hours)} GPU-hours left. "
        f"It is validated and saved every {'step' if run.segment_steps == 1 else f'{run.segment_steps:,} steps'}."
    )
    for note in planned.notes:
        yield from canvas.lines(f"{capital(note)}.")
    if planned.shortfall is not None:
        yield from canvas.lines(f"It cannot run here: {planned.shortfall}", "yellow")
    yield from canvas.lines("Nothing was started.", "dim")
    if planned.shortfall is None:
        steps = [invocation.without("starts it", "--dry-run")]
    else:
        steps = [NextStep(invocation.command("recommend", planned.sweep), "what it rests on")]
    yield from next_steps(steps, canvas)


def print_ended(final: FinalStanding, format: Format, invocation: Invocation) -> int:
    """Print how a final run ended; exit code 5 where a warning stands."""
    if format is Format.JSON:
        print_json({"final": final_data(final)})
    elif format is Format.CSV:
        print_csv(("step", "gpu_hours", "score"), (asdict(each) for each in final.scores))
    else:
        steps = [
            NextStep(invocation.command("status", final.sweep), "its scores beside the forecast"),
            NextStep(invocation.command("report", final.sweep), "all of it as one page"),
        ]
        print_drawn(lambda canvas: [*final_lines(final, canvas), *next_steps(steps, canvas)])
    if final.goes_wrong:
        tell(f"{final.sweep} ended with a warning: {'; '.join(each.rule for each in final.warnings)}")
        return ExitCode.FINISHED_WITH_FAILURES
    return ExitCode.DONE


def final_lines(final: FinalStanding, canvas: Canvas) -> Iterator[Part]:
    """Return the lines about a final run, the first thing that is shown of a sweep that has one."""
    yield from canvas.lines(
        f"Final run {final.sweep} of {final.of_sweep}: {final.name}, {final.status}, step {final.step:,} of "
        f"{final.update_steps:,}, {hours(final.gpu_hours_spent)} of {hours(final.budget_gpu_hours)} GPU-hours spent",
        "bold",
    )
    if (where := final.ending if final.ended else final.line) is not None:
        yield from canvas.lines(capital(where))
    for warning in final.warnings:
        yield from canvas.lines(f"WARNING, {warning.said}", "red")
    if final.left is not None and not final.ended:
        left = f"The last {final.left.share:.0%} should add {final.left.expected:.2g}"
        yield from canvas.lines(f"Little left to gain: {left[:1].lower()}{left[1:]}." if final.left.won else f"{left}.")
    if final.switch is not None and not final.ended:
        yield from canvas.lines(capital(final.switch), "yellow")
    if final.best is not None:
        where = f", kept in {final.best_folder}" if final.best_folder else ""
        if final.kept is not None and final.kept != final.best:
            other = f"that of update {final.kept.step:,}, {final.kept.score:.3f}"
            where = f"; its checkpoint is gone, and {other}, is kept in {final.best_folder}"
        yield from canvas.lines(f"Best so far: {final.best.score:.3f} at update {final.best.step:,}{where}", "dim")
