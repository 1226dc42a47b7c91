"""`rlplan sweep`: the pilots of a plan run here or by Slurm, are rehearsed, or only told."""

from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter

from rlplan.actions import sweep_request, sweeping
from rlplan.actions.slurm_job import Submitted, for_slurm, rehearses, submit_job
from rlplan.actions.sweep_request import DryRun, PlannedTrial
from rlplan.commands.doctor import Findings, rehearsal
from rlplan.commands.ended import Ended
from rlplan.live.sweep_running import followed
from rlplan.requests.running import SweepRequest
from rlplan.wording.draw import Canvas, Cells, Column, Invocation, Part, next_steps, table_of
from rlplan.wording.numbers import aligned_hours, duration, hours, plural, steps
from rlplan.wording.row_columns import SIZE
from rlplan.wording.terminal import capital


def answer(asked: SweepRequest) -> Findings | Submitted | DryRun | Ended:
    """Run the pilots, or do what else is asked for."""
    if rehearses(asked):
        from rlplan.actions.rehearsing import rehearse  # noqa: PLC0415

        return rehearsal(rehearse(asked))
    if for_slurm(asked):
        return submit_job(asked)
    if asked.dry_run:
        return sweep_request.describe(asked)
    return Ended(followed(partial(sweeping.start, asked), asked.db), asked.db)


def parts(planned: DryRun, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw the trials with their steps and prices, the time they take, and what is lacking to run them."""
    columns: Sequence[Column[PlannedTrial]] = (
        *SIZE[:2],
        Column("pilot", lambda trial: f"{steps(trial.pilot_steps)} steps"),
        Column("segment", lambda trial: f"{steps(trial.segment_steps)} steps"),
        Column("GPU-hours", lambda trial: aligned_hours(trial.gpu_hours)),
        Column("trial", attrgetter("name"), Cells.TEXTS),
    )
    total, ways = sum(trial.gpu_hours for trial in planned.trials), plural(planned.workers, "worker")
    yield from canvas.lines(
        f"{plural(len(planned.trials), 'pilot')} of {planned.plan}: {hours(total)} GPU-hours together, about "
        f"{duration(planned.wall_hours)} on {ways}.",
        "bold",
    )
    if planned.champion is None:
        spend = f"They may spend {hours(planned.pilot_gpu_hours)} GPU-hours: what is over goes to the most promising."
    elif len(planned.champion) == 1:
        spend = (
            f"{planned.champion[0]} comes first: its run becomes the final run, unless another is likely to end higher."
        )
    else:
        spend = f"{' and '.join(planned.champion)} race first: the best one's run becomes the final run."
    yield from canvas.lines(spend)
    for text in planned.notes:
        yield from canvas.lines(f"{capital(text)}.", "yellow")
    yield ""
    yield table_of(planned.trials, columns, canvas)
    yield ""
    if planned.shortfall is not None:
        yield from canvas.lines(f"It cannot run here: {planned.shortfall}", "yellow")
    yield from canvas.lines("Nothing was started.", "dim")
    starts = invocation.without("starts it", "--dry-run")
    if planned.shortfall is not None:
        starts = invocation.without("starts it on a Ray cluster", "--dry-run", "--ray-address", "auto")
    yield from next_steps([starts], canvas)
