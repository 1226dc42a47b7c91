"""`rlplan sweep`: the pilots of a plan run here or by Slurm, are rehearsed, or only told."""

from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter

from budgets.errors import InputError
from rlplan.actions import sweep_request, sweeping
from rlplan.actions.submitting import Submitted, submit_job
from rlplan.actions.sweep_request import DryRun, PlannedTrial
from rlplan.commands.doctor import Findings, rehearsal
from rlplan.commands.ended import Ended
from rlplan.live.sweep_running import followed
from rlplan.requests.running import GoOnRequest, LaunchRequest, ResumeRequest, SweepRequest
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


def rehearses(asked: SweepRequest | LaunchRequest) -> bool:
    """Whether it is only to be tried; refused beside what would do something else."""
    if asked.rehearse and (asked.slurm or asked.sbatch or asked.dry_run):
        raise InputError("--rehearse tries it here and now: leave out --slurm, --sbatch and --dry-run")
    return asked.rehearse


def for_slurm(asked: SweepRequest | LaunchRequest | GoOnRequest) -> bool:
    """Whether a job is to be submitted; refused is what makes no sense with it, or without it."""
    of_job = isinstance(asked, GoOnRequest) and asked.dry_run
    if not asked.slurm and (asked.sbatch or of_job):
        raise InputError(f"{'--sbatch' if asked.sbatch else '--dry-run'} is about a job: give --slurm too")
    if asked.slurm and isinstance(asked, ResumeRequest) and asked.wait:
        raise InputError("--wait is for a driver here; a job waits for the one before by itself: leave it out")
    if asked.slurm and isinstance(asked, ResumeRequest) and asked.add is not None:
        raise InputError("--add and --slurm are both given, and a job that begins again would add again: add first")
    if asked.slurm and asked.ray_address is not None:
        raise InputError(
            f"--slurm and --ray-address {asked.ray_address} are both given: a job starts a Ray of its own; leave one "
            "out"
        )
    return asked.slurm


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
