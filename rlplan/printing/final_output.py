"""Prints a final run: what would be launched, how it stands against its promise, and how it ended."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from planner.axes import named_configuration
from rlplan.exits import ExitCode
from rlplan.reading.finals import FinalStanding, final_data
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.numbers import hours, interval
from rlplan.wording.terminal import Canvas, tell

if TYPE_CHECKING:
    from rlplan.actions.launching import Planned

BAND_COLUMNS = ("share", "score", "low", "high")


def print_planned(planned: "Planned", format: Format) -> int:
    """Print what would be launched and what is promised of it; CSV is the promise along the way."""
    if format is Format.JSON:
        print_json(_planned_data(planned))
    elif format is Format.CSV:
        print_csv(BAND_COLUMNS, (dict(zip(BAND_COLUMNS, row, strict=True)) for row in planned.promise.band))
    else:
        print_drawn(lambda canvas: _planned(planned, canvas))
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


def _planned(planned: "Planned", canvas: Canvas) -> Iterator[Part]:
    run = planned.run
    yield from canvas.lines(
        f"{planned.sweep}: {named_configuration(run.configuration)} for {run.update_steps:,} updates at learning rate "
        f"{run.learning_rate:.2g}, for about {hours(run.gpu_hours)} of the {hours(run.budget_gpu_hours)} GPU-hours "
        f"that are left; scored and saved every {run.segment_steps:,} updates",
        "bold",
    )
    end = planned.promise.end
    yield from canvas.lines(f"Promised at its end: {interval(end.score, end.low, end.high)}")
    for note in planned.notes:
        yield from canvas.lines(note)
    if planned.shortfall is not None:
        yield from canvas.lines(f"It cannot run here: {planned.shortfall}", "yellow")
    yield from canvas.lines("Nothing was started.", "dim")


def print_ended(final: FinalStanding, format: Format) -> int:
    """Print how a final run ended; exit code 5 where a warning stands."""
    if format is Format.JSON:
        print_json({"final": final_data(final)})
    elif format is Format.CSV:
        print_csv(("step", "gpu_hours", "score"), (asdict(each) for each in final.scores))
    else:
        print_drawn(lambda canvas: final_lines(final, canvas))
    if final.goes_wrong:
        tell(f"{final.sweep} ended with a warning: {'; '.join(each.rule for each in final.warnings)}")
        return ExitCode.FINISHED_WITH_FAILURES
    return ExitCode.DONE


def final_lines(final: FinalStanding, canvas: Canvas) -> Iterator[Part]:
    """Return the lines about a final run, the first thing that is shown of a sweep that has one."""
    yield from canvas.lines(
        f"Final run {final.sweep} of {final.of_sweep}: {final.name}, {final.status}, update {final.step:,} of "
        f"{final.update_steps:,}, {hours(final.gpu_hours_spent)} of {hours(final.budget_gpu_hours)} GPU-hours spent",
        "bold",
    )
    if (told := final.ending if final.ended else final.line) is not None:
        yield from canvas.lines(told[:1].upper() + told[1:])
    for warning in final.warnings:
        yield from canvas.lines(f"WARNING, {warning.said}", "red")
    if final.left is not None and not final.ended:
        said = f"{final.left.share:.0%} of the run are left; they are expected to bring {final.left.expected:.3f}"
        yield from canvas.lines(f"{said}: nothing is left to win" if final.left.won else said)
    if final.switch is not None and not final.ended:
        yield from canvas.lines(final.switch[:1].upper() + final.switch[1:], "yellow")
    if final.best is not None:
        where = f", kept in {final.best_folder}" if final.best_folder else ""
        if final.kept is not None and final.kept != final.best:
            other = f"that of update {final.kept.step:,}, {final.kept.score:.3f}"
            where = f"; its checkpoint is gone, and {other}, is kept in {final.best_folder}"
        yield from canvas.lines(f"Best so far: {final.best.score:.3f} at update {final.best.step:,}{where}", "dim")
