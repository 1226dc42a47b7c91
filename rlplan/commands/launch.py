"""`rlplan launch`: a final run is driven here or by Slurm, rehearsed, printed for somebody else, or only told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from budgets.errors import InputError
from planner.axes import format_axes, named_configuration
from planner.belief.forecasts import PredictedScore
from rlplan.actions import launching
from rlplan.actions.launching import Planned
from rlplan.actions.slurm_job import Submitted, for_slurm, rehearses, submit_job
from rlplan.commands.doctor import Findings, rehearsal
from rlplan.commands.ended import Ended
from rlplan.live.sweep_running import followed
from rlplan.reading.starting import ByHand, by_hand
from rlplan.requests.running import LaunchRequest
from rlplan.wording.answers import Answer
from rlplan.wording.documents import AxisValues, Key
from rlplan.wording.draw import Canvas, Invocation, Part, next_steps, unbroken
from rlplan.wording.numbers import hours, interval, rate
from rlplan.wording.row_columns import columns
from rlplan.wording.terminal import capital

PRINTED = ("db", "sweep", "print_for", "row", "allocation", "dry_run")  # what --print goes by


@dataclass(frozen=True, repr=False)
class Line(Answer):
    """Arguments under a comment that says what they are; JSON has all of the row."""

    COLUMNS = columns("trainer argument")

    found: ByHand

    @property
    def document(self) -> ByHand:
        """All of the row."""
        return self.found

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each argument."""
        return [{"trainer": self.found.trainer, "argument": each} for each in self.found.arguments]

    def parts(self, _: Invocation, __: Canvas) -> Iterator[Part]:
        """Return the lines as they are, however long: they are to be pasted."""
        found, row = self.found, self.found.row
        of = f", {format_axes(row.axes)}" if row.axes else ""
        yield unbroken(
            [
                f"# {found.of}, row {row.rank}: n = {row.rollouts_per_prompt}, B = {row.prompts_per_batch}{of}",
                f"# {row.update_steps:,} steps at learning rate {rate(row.learning_rate)}, recipe {row.recipe}",
                *([f"# {found.note}"] if found.note else []),
                *(f"{each} \\" for each in (*([found.launcher] if found.launcher else []), *found.arguments[:-1])),
                found.arguments[-1],
            ]
        )


@dataclass(frozen=True, repr=False)
class LaunchPlan(Answer):
    """A final run as it would be launched; rows are the promise along the way."""

    DRAWN = "rlplan.commands.launch"
    COLUMNS = columns("share score low high")

    planned: Planned = field(repr=False)

    sweep = Key[str]("planned.sweep")
    rollouts_per_prompt = Key[int](lambda each: each.planned.run.configuration.rollouts_per_prompt)
    prompts_per_batch = Key[int](lambda each: each.planned.run.configuration.prompts_per_batch)
    axes = Key[AxisValues](lambda each: dict(each.planned.run.configuration.axes))
    update_steps = Key[int]("planned.run.length.steps")
    segment_steps = Key[int]("planned.run.length.segment_steps")
    from_step = Key[int]("planned.run.from_step")
    learning_rate = Key[float]("planned.run.learning_rate")
    gpu_hours = Key[float]("planned.run.length.gpu_hours")
    budget_gpu_hours = Key[float]("planned.run.budget_gpu_hours")
    promised = Key[PredictedScore]("planned.promise.end")
    band = Key[Sequence[Sequence[float]]]("planned.promise.rows", "share of the run, score, low and high")
    notes = Key[Sequence[str]]("planned.notes")
    shortfall = Key[str | None]("planned.shortfall", "why it cannot run here")

    @property
    def listed(self) -> Sequence[Any]:
        """The promise along the way."""
        return [dict(zip(self.COLUMNS, row, strict=True)) for row in self.planned.promise.band]


def answer(asked: LaunchRequest) -> LaunchPlan | Line | Findings | Submitted | Ended:
    """Launch it, or do what else is asked for."""
    if asked.print_for is not None:
        _require_only_printed(asked)
        return Line(by_hand(asked.db, asked.sweep, asked.print_for, asked.row, asked.allocation))
    if rehearses(asked):
        from rlplan.actions.rehearsing import rehearse_final  # noqa: PLC0415

        return rehearsal(rehearse_final(asked))
    if for_slurm(asked):
        return submit_job(asked)
    if asked.dry_run:
        return LaunchPlan(launching.describe(asked))
    return Ended(followed(partial(launching.launch, asked), asked.db), asked.db)


def _require_only_printed(asked: LaunchRequest) -> None:
    """Refuse what --print would pass over."""
    others = (each for each in fields(LaunchRequest) if each.name not in PRINTED)
    if beside := next((each.name for each in others if getattr(asked, each.name) != each.default), None):
        raise InputError(
            f"{{print}}: it prints a row and runs nothing, and {{{beside}}} is for a run: leave one of them out",
            **{"print": asked.print_for, beside: None},
        )


def parts(found: LaunchPlan, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw what would be launched and what is promised of it."""
    planned = found.planned
    run, end = planned.run, planned.promise.end
    yield from canvas.lines(
        f"{planned.sweep}: {named_configuration(run.configuration)} for {run.length.steps:,} steps at learning rate "
        f"{rate(run.learning_rate)}.",
        "bold",
    )
    yield from canvas.lines(
        f"Expected score at its end {interval(end.score, end.low, end.high)}: the run is held to that forecast."
    )
    every = run.length.segment_steps
    yield from canvas.lines(
        f"It takes about {hours(run.length.gpu_hours)} of the {hours(run.budget_gpu_hours)} GPU-hours left. "
        f"It is validated and saved every {'step' if every == 1 else f'{every:,} steps'}."
    )
    for note in planned.notes:
        yield from canvas.lines(f"{capital(note)}.")
    if planned.shortfall is not None:
        yield from canvas.lines(f"It cannot run here: {planned.shortfall}", "yellow")
    yield from canvas.lines("Nothing was started.", "dim")
    if planned.shortfall is None:
        steps = [invocation.without("starts it", "--dry-run")]
    else:
        steps = [invocation.step("recommend", planned.sweep, "what it rests on")]
    yield from next_steps(steps, canvas)
