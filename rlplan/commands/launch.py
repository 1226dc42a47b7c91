"""`rlplan launch`: a final run is driven here or by Slurm, rehearsed, printed for somebody else, or only told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from budgets import catalogue
from budgets.errors import InputError, UnknownNameError
from budgets.hardware import SECONDS_PER_HOUR, fewest_nodes
from budgets.workload import Validation
from planner.axes import MODEL, RECIPE, format_axes, named_configuration, text_of
from planner.belief.forecasts import PredictedScore
from planner.config.request import SCRIPT
from planner.policy.champion import champion_of
from planner.recipes import load_recipe, recipe_names
from planner.recipes.schema import Schedule
from planner.scripts.arguments import Start, launcher_of, line_of, note_of, starters
from planner.scripts.launch import SERVER
from planner.store import open_store
from planner.store.results import RankedRow
from planner.store.schema import Plan
from planner.view import Configuration
from rlplan.actions import final_run
from rlplan.actions.final_run import Planned
from rlplan.actions.machine import Findings, rehearsal
from rlplan.actions.slurm_job import Submitted, for_slurm, rehearses, submit_job
from rlplan.commands.ended import Ended
from rlplan.live.sweep_running import followed
from rlplan.reading.ranked import ranking
from rlplan.reading.row_choice import row_with, sizes_in
from rlplan.reading.sweep_picture import Source
from rlplan.requests.run import LaunchRequest
from rlplan.wording.answers import Answer, AxisValues, Key, View, columns
from rlplan.wording.numbers import hours, interval, rate
from rlplan.wording.screen import Canvas, Invocation, Part, capital, next_steps, unbroken
from runner.sweep.plan_rows import configuration_of, row_of


class RowData(View[RankedRow]):
    """A row, with its axes also where there are none."""

    WHOLE = RankedRow
    axes = Key[AxisValues](lambda row: dict(row.of.axes))


KEPT = 2  # checkpoints: the newest, and the one before it while that is written
CADENCE = ("problems", "samples", "every_steps", "every_rollouts")  # of a plan's validation


@dataclass(frozen=True, slots=True)
class ByHand:
    """One ranked allocation, and how a trainer is given it."""

    of: str  # plan or sweep
    row: RankedRow = field(repr=False)
    trainer: str
    arguments: tuple[str, ...]
    note: str | None  # what to mind besides
    launcher: str | None = None  # what stands before the arguments, where its trainer needs a launcher

    taken = Key[RowData](lambda line: RowData(line.row), name="row")


def by_hand(
    database: str, name: str | None, trainer: str, row: int | None = None, allocation: str | None = None
) -> ByHand:
    """Return how an allocation is given to a trainer, by default the first of the newest sweep, a plan's champion."""
    if trainer not in starters():
        raise UnknownNameError("trainer", trainer, starters())
    ranked = ranking(database, name)
    with open_store(database, read_only=True) as store:
        plan = store.plan(ranked.plan)
    if row is None and allocation is None and ranked.sweep is None:
        row = _champion_rank(plan)
    choice = row_with(ranked.every, row, sizes_in(allocation), ranked.sweep or ranked.plan)
    schedule = load_recipe(choice.recipe).schedule if choice.recipe in recipe_names() else Schedule()
    updates = schedule.updates_per_batch
    start = Start(
        choice.rollouts_per_prompt,
        choice.prompts_per_batch,
        choice.update_steps,
        choice.learning_rate,
        updates,
        text_of(choice.axes, RECIPE),
        _of_plan(plan, choice, updates),
    )
    model, stale, launcher = start.further.get("model"), schedule.staleness_bound, launcher_of(trainer, start)
    if stale and launcher:
        raise InputError(
            f"--print {trainer}: recipe '{choice.recipe}' generates while it trains, on GPUs of its own, and {trainer} "
            "takes turns. Print it for verl, or plan with --recipe grpo"
        )
    if trainer == "trl" and plan.config.get("sources", {}).get("trainer.name") == SERVER:
        script = plan.config["sources"].get("proposal.baseline", SCRIPT).removeprefix(SCRIPT) or "the script"
        raise InputError(
            f"--print trl: {script} has vLLM on GPUs of its own, and {plan.name} is priced with vLLM on those that "
            f"train. Set n, B and the learning rate in {script}, or plan without --from to print vllm_mode=colocate"
        )
    notes = [f"for {model} give a folder or a name of the hub"] if model in catalogue.names("models") else []
    unmeasured = ranked.sweep is not None and ranked.source is Source.PROPOSED
    notes += ["as proposed: the sweep recommends nothing yet"] if unmeasured else []
    notes += [f"engines have GPUs of their own, up to {stale} updates ahead: split them"] if stale else []
    notes += [note] if (note := note_of(trainer, start)) else []
    arguments, note = tuple(line_of(trainer, start)), "; ".join(notes) or None
    return ByHand(ranked.sweep or ranked.plan, choice, trainer, arguments, note, launcher)


def _champion_rank(plan: Plan) -> int | None:
    """Return the rank of a plan's champion, which `launch` starts; None where the grid is explored."""
    champion = champion_of(plan.config, plan.budget_gpu_hours)
    starts = () if champion is None else champion.candidates
    return next((row.rank for row in plan.candidates if configuration_of(row) in starts), None)


def _of_plan(plan: Plan, row: RankedRow, updates: int) -> dict[str, Any]:
    """Return what the plan took for granted beside the row, by our names: `check` of the line then agrees with it."""
    if plan.config.get("workload", {"task": "adopted"})["task"] is not None:  # whose model and lengths no trainer has
        return {}
    gpus = plan.hardware["gpus_per_trial"]
    nodes = fewest_nodes(gpus, plan.hardware["gpus_per_node"])
    validation = Validation(**{name: plan.config["validation"][name] for name in CADENCE})
    configuration = Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes)
    batch_seconds = row_of(plan, configuration).gpu_hours_per_step * updates / gpus * SECONDS_PER_HOUR
    every = validation.steps_between(row.rollouts_per_prompt * row.prompts_per_batch, updates)
    seconds = plan.hardware.get("save_every_seconds")
    return {
        "model": text_of(row.axes, MODEL) or plan.config["workload"]["model"],
        "response_tokens": plan.config["workload"]["response_tokens"],
        "nodes": nodes,
        "gpus_per_node": gpus // nodes,
        "validation_every": every // updates,
        "validation_samples": validation.samples,
        "keep_checkpoints": KEPT,
        "dataset_problems": plan.config["workload"]["prompt_set_size"],
        **({"save_every": max(1, int(seconds / batch_seconds))} if seconds else {}),
    }


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
        return [{"trainer": self.found.trainer, "argument": argument} for argument in self.found.arguments]

    def parts(self, _: Invocation, __: Canvas) -> Iterator[Part]:
        """Return the lines as they are, however long: they are to be pasted."""
        found, row = self.found, self.found.row
        of = f", {format_axes(row.axes)}" if row.axes else ""
        yield unbroken(
            [
                f"# {found.of}, row {row.rank}: n = {row.rollouts_per_prompt}, B = {row.prompts_per_batch}{of}",
                f"# {row.update_steps:,} steps at learning rate {rate(row.learning_rate)}, recipe {row.recipe}",
                *([f"# {found.note}"] if found.note else []),
                *(f"{word} \\" for word in (*([found.launcher] if found.launcher else []), *found.arguments[:-1])),
                found.arguments[-1],
            ]
        )


@dataclass(frozen=True, repr=False)
class LaunchPlan(Answer):
    """A final run as it would be launched; rows are the promise along the way."""

    COLUMNS = columns("share score low high")

    planned: Planned = field(repr=False)

    sweep = Key[str]("planned.sweep")
    rollouts_per_prompt = Key[int](lambda plan: plan.planned.run.configuration.rollouts_per_prompt)
    prompts_per_batch = Key[int](lambda plan: plan.planned.run.configuration.prompts_per_batch)
    axes = Key[AxisValues](lambda plan: dict(plan.planned.run.configuration.axes))
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

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw what would be launched and what is promised of it."""
        planned = self.planned
        run, end = planned.run, planned.promise.end
        yield from canvas.lines(
            f"{planned.sweep}: {named_configuration(run.configuration)} for {run.length.steps:,} steps at learning "
            f"rate {rate(run.learning_rate)}.",
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


def answer(request: LaunchRequest) -> LaunchPlan | Line | Findings | Submitted | Ended:
    """Launch it, or do what else is asked for."""
    if request.print_for is not None:
        _require_only_printed(request)
        return Line(by_hand(request.db, request.sweep, request.print_for, request.row, request.allocation))
    if rehearses(request):
        from rlplan.actions.rehearsal import rehearse_final  # noqa: PLC0415

        return rehearsal(rehearse_final(request))
    if for_slurm(request):
        return submit_job(request)
    if request.dry_run:
        return LaunchPlan(final_run.describe(request))
    return Ended(followed(partial(final_run.launch, request), request.db), request.db)


def _require_only_printed(request: LaunchRequest) -> None:
    """Refuse what --print would pass over."""
    others = (flag for flag in fields(LaunchRequest) if flag.name not in PRINTED)
    if beside := next((other.name for other in others if getattr(request, other.name) != other.default), None):
        raise InputError(
            f"{{print}}: it prints a row and runs nothing, and {{{beside}}} is for a run: leave one of them out",
            **{"print": request.print_for, beside: None},
        )
