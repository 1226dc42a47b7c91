"""What is asked of `rlplan sweep`, by flags or from Python, and what it would run."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from budgets.errors import BudgetError, InputError
from planner.axes import named_configuration
from planner.config import Resolved
from planner.config.trainer import COMMAND, ENVIRONMENT
from planner.logs.trainers import load_trainer
from planner.policy.champion import champion_of, most_of_a_sweep
from planner.policy.policies import open_policy
from planner.proposals.split import side_by_side
from planner.rules import LOOK_SHARE
from planner.scripts.arguments import Start
from planner.store import Store, open_store
from planner.store.engine import locate
from planner.store.finals import spent_beside
from planner.store.schema import Plan
from planner.tables import explained
from planner.view import CHAMPION_POLICY
from rlplan.actions.configuring import flag_of, flagged, load_configuration
from rlplan.actions.proposing import Require, draft_plan, make_plan
from rlplan.reading.sweep_data import approximated
from rlplan.requests.running import SweepRequest
from rlplan.wording.answers import Answer
from rlplan.wording.extras import require_tracker
from rlplan.wording.row_columns import columns
from runner.machine import cpu_cores
from runner.storage.place import Place
from runner.sweep.planned import configuration_of
from runner.sweep.planning import SweepChoice, new_trials, piloted, shortfall, sweep_spec
from runner.sweep.spec import SweepSpec
from runner.sweep.standing_in import without_gpus
from runner.tasks.task_loader import open_task, user_problems


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

    DRAWN = "rlplan.commands.sweep"
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


def describe(request: SweepRequest) -> DryRun:
    """Say what a sweep would run; nothing is stored and no worker started."""
    plan = plan_meant(request)
    spec, others = spec_of(request, plan), list[str]()
    if not _makes_a_plan(request):
        with open_store(request.db, read_only=True) as store:
            spec, others = within_plan(store, plan, spec)
    champion, trials = spec.champion_terms, tuple(_planned_trials(spec, plan))
    lacking = shortfall(spec, plan, *machine()) if request.ray_address is None else None
    wall = side_by_side([trial.gpu_hours for trial in trials], spec.workers) / spec.resources.slots
    notes = (*notes_of(request, spec, plan), *others)
    own = None if champion is None else tuple(map(named_configuration, champion.candidates))
    return DryRun(plan.name, trials, spec.workers, spec.pilot_gpu_hours, wall, lacking, notes, own)


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


def within_plan(store: Store, plan: Plan, spec: SweepSpec) -> tuple[SweepSpec, list[str]]:
    """Hold pilots to what other sweeps of the plan have left of its whole budget, and say what these have spent."""
    with store.read() as session:
        beside = spent_beside(session, plan.id)
    if not beside:
        return spec, []
    left = plan.budget_gpu_hours - sum(beside.values())
    if left <= 0:
        raise BudgetError(f"{spending_text(beside, plan)}, and nothing is left: make a plan with a larger budget")
    note = f"{spending_text(beside, plan)}; {left:.4g} are left for these pilots and the final run"
    changes = {"pilot_gpu_hours": min(spec.pilot_gpu_hours, left)}
    if (champion := champion_of(plan.config, left)) is not None and spec.champion is not None:
        changes = {"pilot_gpu_hours": most_of_a_sweep(champion), "target_gpu_hours": left}
    return spec.model_copy(update=changes), [note]


def spending_text(beside: Mapping[str, float], plan: Plan) -> str:
    """Say what other sweeps of a plan have spent."""
    parts = ", ".join(f"{name} {spent:.4g}" for name, spent in beside.items())
    return f"other sweeps of {plan.name} have spent {parts} of its {plan.budget_gpu_hours:.4g} GPU-hours"


def notes_of(request: SweepRequest, spec: SweepSpec, plan: Plan) -> list[str]:
    """Say what is done otherwise than a recipe or a script says."""
    notes = [*approximated(spec.model_dump(mode="json")), *_left_out(spec)]
    trainer = spec.training.trainer
    if trainer is not None and isinstance(trainer.options.get(ENVIRONMENT), Mapping):
        notes.append("problems, rewards and scores are the environment's; of [task] only lengths and sampling count")
    if (rank := (machine := spec.training.machine).lora_rank) is not None:
        notes.append(f"LoRA on every projection: rank {rank}, alpha {machine.lora_alpha}; all other weights stay")
    if request.script is not None:
        from runner.trainers.script import read_script  # noqa: PLC0415  (reads what no other sweep needs)

        assert spec.training.trainer is not None
        notes += read_script(request.script).notes(spec.training.trainer.options["settings"], _decided(spec, plan))
    return notes


def _decided(spec: SweepSpec, plan: Plan) -> dict[str, Any]:
    """Return what the plan's first trial has of what a script says, by our names."""
    task, trainer = spec.training.task, spec.training.trainer
    rows = piloted(spec, plan)
    if not rows or trainer is None:
        return {}
    row = rows[0]
    updates = spec.training.recipe.schedule.updates_per_batch
    sizes = row.rollouts_per_prompt, row.prompts_per_batch, row.update_steps, row.learning_rate
    start = Start(*sizes, updates).values(counts_updates=load_trainer(trainer.name).counts_updates)
    return {**start, "model": task.model, "dataset": task.name, "response_tokens": task.max_response_tokens}


def _left_out(spec: SweepSpec) -> tuple[str, ...]:
    """Say which problems of one's own are not asked; a trainer that is described by a file counts no tokens."""
    training = spec.training
    own, trainer = training.task, training.trainer
    if own.model is None or training.simulation is not None or (trainer is not None and not trainer.takes_problems):
        return ()
    if trainer is not None and trainer.name == COMMAND:
        return user_problems(own, training.validation.problems).left_out
    task = open_task(training.task, spec.seed, training.validation.problems)
    task.reward.close()
    return task.left_out


def plan_to_run(request: SweepRequest) -> str | None:
    """Return the plan to run: the one that is named, one made for the given budget, or None for the newest."""
    if not _makes_a_plan(request):
        return request.plan
    resolved, require = _asked_plan(request)
    return make_plan(resolved, request.db, require=require).name


def plan_meant(request: SweepRequest) -> Plan:
    """Return the plan that would be run; one that would be made is not stored."""
    if _makes_a_plan(request):
        resolved, require = _asked_plan(request)
        return draft_plan(resolved, request.db, require=require)
    with open_store(request.db, read_only=True) as store:
        return store.plan(request.plan)


def _asked_plan(request: SweepRequest) -> tuple[Resolved, Require]:
    """Return the configuration of the plan that is to be made, and what it has to be fit for."""
    if request.plan is not None:
        raise InputError(
            f"a plan ({request.plan}) and what makes a new one (--budget, --task, …) are both given: the plan has its "
            "own, leave one of them out"
        )
    given: Mapping[str, tuple[str, Any]] = {**flagged(request), **(request.further or {})}
    if request.policy not in (None, CHAMPION_POLICY):  # others try out the grid
        given = {**given, "proposal.explore": (f"--policy {request.policy}", True)}
    elif request.search not in (None, "none"):
        given = {**given, "proposal.explore": (f"--search {request.search}", True)}
    if request.script is not None and request.task is None:
        from rlplan.actions.from_script import with_script  # noqa: PLC0415  (reads what no other sweep needs)

        if request.model is not None and (Path(request.model).expanduser() / "config.json").is_file():
            given = {**given, "workload.model": ("--model", request.model)}
        given = with_script(given, request.script)
    return load_configuration(request.config, request.task, given), lambda draft: spec_of(request, draft)


def _makes_a_plan(request: SweepRequest) -> bool:
    """Whether anything is given that a plan is made of."""
    given = (value for _, value in flagged(request).values())
    return bool(request.further) or request.task is not None or any(value is not None for value in given)


def spec_of(request: SweepRequest, plan: Plan) -> SweepSpec:
    """Return the settings of the sweep; refused where the plan cannot be run so."""
    names = {name: flag_of(name) for name in SweepChoice.model_fields}
    try:
        choice = SweepChoice.model_validate({name: getattr(request, name) for name in names})
    except ValidationError as error:
        raise explained(error, SweepChoice, names, "a flag") from error
    if request.script is not None and request.task is None:
        from rlplan.actions.from_script import trained_on  # noqa: PLC0415  (reads what no other sweep needs)

        of_script = trained_on(request.script)
        given = {"trainer"} | {key for key in of_script if getattr(choice, key)}  # sweep_spec reads the trainer
        choice = choice.model_copy(update={key: each for key, each in of_script.items() if key not in given})
    search = None if choice.search == "none" else choice.search
    if choice.search is None and (plan.config.get("axes") or {}).get("learning_rate_range"):
        search = "tpe"  # something proposes trials where a learning rate is to be found
    if choice.policy not in (None, CHAMPION_POLICY):
        open_policy(choice.policy, search=search)  # refuses what is not known, before anything is stored
    folder = own_folder(choice.folder, request.db)
    config = load_configuration(request.config).config
    storage = choice.storage or config.storage.url
    if storage is not None:
        Place(storage).require_usable()
    spec = sweep_spec(plan, choice.model_copy(update={"search": search, "folder": folder, "storage": storage}))
    if config.tracking.to is not None:
        require_tracker(config.tracking.to)
        spec = spec.model_copy(update={"tracking": config.tracking})
    return without_gpus(spec) if request.ray_address is None else spec


def own_folder(given: Path | None, database: str) -> Path | None:
    """Return the folder above those of the database's sweeps: beside an SQLite file, if none is given."""
    if given is None and isinstance(place := locate(database), Path):
        return place.with_name(f"{place.stem}-sweeps")
    return given


def machine() -> tuple[float, float]:
    """Return how many CPU cores and GPUs this machine has."""
    return float(cpu_cores()), float(len(list(Path("/dev").glob("nvidia[0-9]*"))))
