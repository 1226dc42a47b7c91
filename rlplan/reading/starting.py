"""What `rlplan launch --print` says: an allocation in the keys of a trainer."""

from dataclasses import dataclass, field
from typing import Any

from budgets import catalogue
from budgets.errors import InputError, UnknownNameError
from budgets.hardware import SECONDS_PER_HOUR, fewest_nodes
from budgets.workload import Validation
from planner.axes import MODEL, RECIPE, text_of
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
from rlplan.reading.rank_reading import ranking
from rlplan.reading.row_choice import row_with, sizes_in
from rlplan.reading.sweep_picture import Source
from rlplan.wording.documents import AxisValues, Key, View
from runner.sweep.planned import configuration_of, row_of


class RowData(View[RankedRow]):
    """A row, with its axes also where there are none."""

    WHOLE = RankedRow
    axes = Key[AxisValues](lambda each: dict(each.of.axes))


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

    taken = Key[RowData](lambda each: RowData(each.row), name="row")


def by_hand(
    database: str, name: str | None, trainer: str, row: int | None = None, allocation: str | None = None
) -> ByHand:
    """Return how an allocation is given to a trainer, by default the first of the newest sweep, a plan's champion."""
    if trainer not in starters():
        raise UnknownNameError("trainer", trainer, starters())
    found = ranking(database, name)
    with open_store(database, read_only=True) as store:
        plan = store.plan(found.plan)
    if row is None and allocation is None and found.sweep is None:
        row = _champion_rank(plan)
    taken = row_with(found.every, row, sizes_in(allocation), found.sweep or found.plan)
    schedule = load_recipe(taken.recipe).schedule if taken.recipe in recipe_names() else Schedule()
    updates = schedule.updates_per_batch
    start = Start(
        taken.rollouts_per_prompt,
        taken.prompts_per_batch,
        taken.update_steps,
        taken.learning_rate,
        updates,
        text_of(taken.axes, RECIPE),
        _of_plan(plan, taken, updates),
    )
    model, stale, launcher = start.further.get("model"), schedule.staleness_bound, launcher_of(trainer, start)
    if stale and launcher:
        raise InputError(
            f"--print {trainer}: recipe '{taken.recipe}' generates while it trains, on GPUs of its own, and {trainer} "
            "takes turns. Print it for verl, or plan with --recipe grpo"
        )
    if trainer == "trl" and plan.config.get("sources", {}).get("trainer.name") == SERVER:
        script = plan.config["sources"].get("proposal.baseline", SCRIPT).removeprefix(SCRIPT) or "the script"
        raise InputError(
            f"--print trl: {script} has vLLM on GPUs of its own, and {plan.name} is priced with vLLM on those that "
            f"train. Set n, B and the learning rate in {script}, or plan without --from to print vllm_mode=colocate"
        )
    notes = [f"for {model} give a folder or a name of the hub"] if model in catalogue.names("models") else []
    unmeasured = found.sweep is not None and found.source is Source.PROPOSED
    notes += ["as proposed: the sweep recommends nothing yet"] if unmeasured else []
    notes += [f"engines have GPUs of their own, up to {stale} updates ahead: split them"] if stale else []
    notes += [note] if (note := note_of(trainer, start)) else []
    arguments, note = tuple(line_of(trainer, start)), "; ".join(notes) or None
    return ByHand(found.sweep or found.plan, taken, trainer, arguments, note, launcher)


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
    named = Configuration(row.rollouts_per_prompt, row.prompts_per_batch, row.axes)
    batch_seconds = row_of(plan, named).gpu_hours_per_step * updates / gpus * SECONDS_PER_HOUR
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
