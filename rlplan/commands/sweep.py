"""`rlplan sweep`: the pilots of a plan run here or by Slurm, are rehearsed, or only told."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter

from planner.axes import named_configuration
from planner.proposals.split import side_by_side
from planner.rules import LOOK_SHARE
from planner.store import open_store
from planner.store.schema import Plan
from rlplan.actions import sweeping
from rlplan.actions.machine import Findings, rehearsal
from rlplan.actions.slurm_job import Submitted, for_slurm, rehearses, submit_job
from rlplan.actions.sweep_request import machine, makes_a_plan, notes_of, plan_meant, spec_of, within_plan
from rlplan.commands.ended import Ended
from rlplan.live.sweep_running import followed
from rlplan.requests.run import SweepRequest
from rlplan.wording.answers import SIZE, Answer, columns
from rlplan.wording.numbers import aligned_hours, duration, hours, plural, steps
from rlplan.wording.screen import Canvas, Cells, Column, Invocation, Part, capital, next_steps, table_of
from runner.sweep.plan import new_trials, piloted, shortfall
from runner.sweep.plan_rows import configuration_of
from runner.sweep.spec import SweepSpec


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial that a sweep would run."""

    name: str
    rollouts_per_prompt: int
    prompts_per_batch: int
    pilot_steps: int
    segment_steps: int
    gpu_hours: float


@dataclass(frozen=True, repr=False)
class DryRun(Answer):
    """What a sweep would do."""

    ROWS = "trials"
    COLUMNS = columns("name rollouts_per_prompt prompts_per_batch pilot_steps segment_steps gpu_hours")

    plan: str
    trials: tuple[PlannedTrial, ...]
    workers: int
    pilot_gpu_hours: float
    wall_hours: float
    shortfall: str | None
    notes: tuple[str, ...] = ()  # what is done otherwise than was asked for
    champion: tuple[str, ...] | None = field(default=None, repr=False)  # whose run becomes the final run

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw the trials with their steps and prices, the time they take, and what is lacking to run them."""
        columns: Sequence[Column[PlannedTrial]] = (
            *SIZE[:2],
            Column("pilot", lambda trial: f"{steps(trial.pilot_steps)} steps"),
            Column("segment", lambda trial: f"{steps(trial.segment_steps)} steps"),
            Column("GPU-hours", lambda trial: aligned_hours(trial.gpu_hours)),
            Column("trial", attrgetter("name"), Cells.TEXTS),
        )
        total, ways = sum(trial.gpu_hours for trial in self.trials), plural(self.workers, "worker")
        yield from canvas.lines(
            f"{plural(len(self.trials), 'pilot')} of {self.plan}: {hours(total)} GPU-hours together, about "
            f"{duration(self.wall_hours)} on {ways}.",
            "bold",
        )
        if self.champion is None:
            spend = f"They may spend {hours(self.pilot_gpu_hours)} GPU-hours: what is over goes to the most promising."
        elif len(self.champion) == 1:
            unless = "unless another is likely to end higher"
            spend = f"{self.champion[0]} comes first: its run becomes the final run, {unless}."
        else:
            spend = f"{' and '.join(self.champion)} race first: the best one's run becomes the final run."
        yield from canvas.lines(spend)
        for text in self.notes:
            yield from canvas.lines(f"{capital(text)}.", "yellow")
        yield ""
        yield table_of(self.trials, columns, canvas)
        yield ""
        if self.shortfall is not None:
            yield from canvas.lines(f"It cannot run here: {self.shortfall}", "yellow")
        yield from canvas.lines("Nothing was started.", "dim")
        starts = invocation.without("starts it", "--dry-run")
        if self.shortfall is not None:
            starts = invocation.without("starts it on a Ray cluster", "--dry-run", "--ray-address", "auto")
        yield from next_steps([starts], canvas)


def describe(request: SweepRequest) -> DryRun:
    """Say what a sweep would run; nothing is stored and no worker started."""
    plan = plan_meant(request)
    spec, others = spec_of(request, plan), list[str]()
    if not makes_a_plan(request):
        with open_store(request.db, read_only=True) as store:
            spec, others = within_plan(store, plan, spec)
    champion, trials = spec.champion_terms, tuple(_planned_trials(spec, plan))
    lacking = shortfall(spec, plan, *machine()) if request.ray_address is None else None
    wall = side_by_side([trial.gpu_hours for trial in trials], spec.workers) / spec.resources.slots
    notes = (*notes_of(request, spec, plan), *others)
    names = None if champion is None else tuple(map(named_configuration, champion.candidates))
    return DryRun(plan.name, trials, spec.workers, spec.pilot_gpu_hours, wall, lacking, notes, names)


def _planned_trials(spec: SweepSpec, plan: Plan) -> Iterator[PlannedTrial]:
    """Return the trials that a sweep begins with; a champion's look is the final run's, at no price in the plan."""
    champion = spec.champion_terms
    for trial, row in zip(new_trials(spec, plan), piloted(spec, plan), strict=True):
        steps, price = row.pilot_steps, row.pilot_gpu_hours
        if champion is not None and configuration_of(trial) in champion.candidates:
            steps = steps or math.ceil(LOOK_SHARE * champion.total_gpu_hours / row.gpu_hours_per_step)
            price = steps * row.gpu_hours_per_step
        sizes = row.rollouts_per_prompt, row.prompts_per_batch
        yield PlannedTrial(trial.name, *sizes, steps, row.segment_steps or max(1, steps // 4), price)


def answer(request: SweepRequest) -> Findings | Submitted | DryRun | Ended:
    """Run the pilots, or do what else is asked for."""
    if rehearses(request):
        from rlplan.actions.rehearsal import rehearse  # noqa: PLC0415

        return rehearsal(rehearse(request))
    if for_slurm(request):
        return submit_job(request)
    if request.dry_run:
        return describe(request)
    return Ended(followed(partial(sweeping.start, request), request.db), request.db)
