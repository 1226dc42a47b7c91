"""How a final run stands against its promise, and what failed in a sweep: lines of `status` and of a sweep's end."""

from collections.abc import Iterator

from planner.percent import percent
from planner.store import Store
from planner.store.sweeps import sweep_named
from rlplan.reading.finals import FinalStanding, final_standing
from rlplan.reading.sweep_picture import Picture
from rlplan.reading.sweep_words import last_line
from rlplan.wording.draw import Canvas, Invocation, NextStep, Part
from rlplan.wording.numbers import hours, some_of
from rlplan.wording.terminal import capital


def final_lines(final: FinalStanding, canvas: Canvas) -> Iterator[Part]:
    """Return the lines about a final run, the first thing that is shown of a sweep that has one."""
    spent = f", {hours(final.gpu_hours_spent)} of {hours(final.budget_gpu_hours)} GPU-hours spent"
    yield from canvas.lines(
        f"Final run {final.sweep} of {final.of_sweep}: {final.name}, {final.status}, step {final.step:,} of "
        f"{final.update_steps:,}{'' if final.ending else spent}",  # which its ending names
        "bold",
    )
    if (where := final.ending if final.ended else final.line) is not None:
        yield from canvas.lines(f"{capital(where)}.")
    for warning in final.warnings:
        yield from canvas.lines(f"WARNING, {warning.said}", "red")
    if final.left is not None and not final.ended:
        left = f"The last {percent(final.left.share)} should add {final.left.expected:.2g}"
        yield from canvas.lines(f"Little left to gain: {left[:1].lower()}{left[1:]}." if final.left.won else f"{left}.")
    if final.switch is not None and not final.ended:
        yield from canvas.lines(capital(final.switch), "yellow")
    if final.best is not None:
        where = f", kept in {final.best_folder}" if final.best_folder else ""
        if final.kept is not None and final.kept != final.best:
            other = f"that of update {final.kept.step:,}, {final.kept.score:.3f}"
            where = f"; its checkpoint is gone, and {other}, is kept in {final.best_folder}"
        so_far = "" if final.ended else " so far"
        yield from canvas.lines(f"Best{so_far}: {final.best.score:.3f} at update {final.best.step:,}{where}", "dim")


def going_on(final: FinalStanding, invocation: Invocation) -> Iterator[NextStep]:
    """Name what goes on with the GPU-hours that a final run has left over."""
    if (unused := final.unused_gpu_hours) is not None:
        yield invocation.step("launch --from-best", final.of_sweep, f"trains on with the {hours(unused)} left")


NAMED_FAILURES = 3  # trials of a class that are named


def final_of_sweep(store: Store, sweep: str) -> FinalStanding | None:
    """Return how a sweep's final run stands; None where none was launched."""
    with store.read() as session:
        return final_standing(session, sweep_named(session, sweep))


def failure_lines(picture: Picture, canvas: Canvas) -> Iterator[Part]:
    """Name what failed, by class, with the last line of one log each."""
    for kind, trials in picture.failures.items():
        names = some_of([trial.name for trial in trials], NAMED_FAILURES)
        log = last_line(trials[0].failure_tail or "")
        yield from canvas.lines(f"Failed, {kind}: {names}{f' ({log})' if log else ''}", "red")
