"""What is asked of `rlplan sweep`, by flags or from Python, and the sweep that is stored for it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import BudgetError, InputError
from planner.config import Resolved
from planner.config.trainer import COMMAND, ENVIRONMENT
from planner.logs.trainers import load_trainer
from planner.policy.champion import KEY, champion_of, most_of_a_sweep
from planner.policy.policies import open_policy
from planner.scripts.arguments import Start
from planner.store import Store, open_store
from planner.store.control import Driver, take_lease
from planner.store.engine import locate
from planner.store.finals import Final, spent_beside
from planner.store.results import record_decision
from planner.store.schema import Plan, Sweep, SweepStatus, Trial
from planner.store.sweeps import add_trial, create_sweep, plan_named, sweep_named
from planner.tables import explained
from planner.view import CHAMPION_POLICY
from rlplan.actions.configuration import flag_of, flagged, load_configuration
from rlplan.actions.stored_plan import Require, draft_plan, make_plan
from rlplan.exits import require_tracker
from rlplan.reading.sweep_data import approximated
from rlplan.requests.run import SweepRequest
from runner.machine import cpu_cores
from runner.processes import has_driver
from runner.storage.place import Place
from runner.sweep.fingerprint import code_fingerprint, configuration_fingerprint
from runner.sweep.home import mark_folder, mark_storage, new_folder, token_of
from runner.sweep.plan import SweepChoice, piloted, sweep_spec
from runner.sweep.spec import SweepSpec
from runner.sweep.stand_in import without_gpus
from runner.tasks.task_loader import open_task, user_problems


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
    if not makes_a_plan(request):
        return request.plan
    resolved, require = _asked_plan(request)
    return make_plan(resolved, request.db, require=require).name


def plan_meant(request: SweepRequest) -> Plan:
    """Return the plan that would be run; one that would be made is not stored."""
    if makes_a_plan(request):
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
    flags: Mapping[str, tuple[str, Any]] = {**flagged(request), **(request.further or {})}
    if request.policy not in (None, CHAMPION_POLICY):  # others try out the grid
        flags = {**flags, "proposal.explore": (f"--policy {request.policy}", True)}
    elif request.search not in (None, "none"):
        flags = {**flags, "proposal.explore": (f"--search {request.search}", True)}
    if request.script is not None and request.task is None:
        from rlplan.actions.from_script import with_script  # noqa: PLC0415  (reads what no other sweep needs)

        if request.model is not None and (Path(request.model).expanduser() / "config.json").is_file():
            flags = {**flags, "workload.model": ("--model", request.model)}
        flags = with_script(flags, request.script)
    return load_configuration(request.config, request.task, flags), lambda draft: spec_of(request, draft)


def makes_a_plan(request: SweepRequest) -> bool:
    """Whether anything is given that a plan is made of."""
    values = (value for _, value in flagged(request).values())
    return bool(request.further) or request.task is not None or any(value is not None for value in values)


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
        choice = choice.model_copy(update={key: value for key, value in of_script.items() if key not in given})
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


def create(
    session: Session,
    plan: str,
    spec: SweepSpec,
    trials: Callable[[SweepSpec], Sequence[Trial]],
    driver: Driver | None,
    now: datetime,
    database: str,
    *,
    name: str | None = None,
) -> tuple[Sweep, SweepSpec, list[int]]:
    """Store a sweep with its trials, whose ids come back, in a folder and a place of storage of its own.

    Both are made below those that the settings name, and marked as the sweep's. A driver, if there is one already,
    holds it from its first moment.
    """
    require_alone(session, plan_named(session, plan).id)
    code = code_fingerprint(spec.training.trainer)
    new = Sweep(policy=spec.policy, seed=spec.seed, config={}, config_hash="", code_hash=code)
    row = sweep_named(session, create_sweep(session, plan, new, now, name=name))
    place = spec.storage and f"{spec.storage.rstrip('/')}/{row.name}-{token_of(row)[:8]}"
    placed = spec.model_copy(
        update={"folder": str(new_folder(Path(spec.folder), row.name, database)), "storage": place}
    )
    row.config, row.config_hash = placed.model_dump(mode="json"), configuration_fingerprint(placed)
    stored = [add_trial(session, row.name, trial, now) for trial in trials(placed)]
    if driver is not None:
        take_lease(session, row.name, driver, now)
    if placed.storage is not None:
        mark_storage(placed.storage, Path(placed.folder), row, database)
    mark_folder(Path(placed.folder), row, database)
    return row, placed, stored


def require_alone(session: Session, plan_id: int, sweep: int | None = None) -> None:
    """Refuse what would spend a plan's budget beside another that does: they would know nothing of each other."""
    for row in session.scalars(select(Sweep).where(Sweep.plan_id == plan_id, Sweep.id != (sweep or 0))):
        if has_driver(row):
            plan = session.get_one(Plan, plan_id).name
            raise InputError(
                f"{row.name} of {plan} is running, and one plan has one budget: follow it with `rlplan status "
                f"{row.name} --watch`, stop it with `rlplan stop {row.name}`, or make another plan for another sweep"
            )


def add_gpu_hours(session: Session, row: Sweep, gpu_hours: float, now: datetime) -> None:
    """Raise a sweep's GPU-hours and its plan's by as many; one that has ended may go on then.

    With a champion all GPU-hours are one sum, of which challengers may have as many more.
    """
    if has_driver(row):
        raise InputError(f"{row.name} is running: stop it first (`rlplan stop {row.name}`), then add to it")
    final = session.scalar(
        select(Sweep.name).join(Final, Final.sweep_id == Sweep.id).where(Final.of_sweep_id == row.id)
    )
    if final is not None or session.scalar(select(Final.id).where(Final.sweep_id == row.id)) is not None:
        raise InputError(
            f"the final run of {row.name} has begun: pilots that come after it change nothing. `rlplan launch "
            "--from-best` trains it on"
        )
    plan = session.get_one(Plan, row.plan_id)
    unchanged = row.config_hash == configuration_fingerprint(SweepSpec.model_validate(row.config))
    row.config = _with_more(row.config, gpu_hours)
    if unchanged:
        row.config_hash = configuration_fingerprint(SweepSpec.model_validate(row.config))
    plan.config = _champions_share(plan.config, plan.budget_gpu_hours, gpu_hours)
    plan.budget_gpu_hours += gpu_hours
    plan.pilot_gpu_hours += gpu_hours
    row.status, row.finished_at = SweepStatus.INTERRUPTED, None
    record_decision(session, row.name, now, "add", f"{gpu_hours:g} GPU-hours were added to it and to {plan.name}")


def _with_more(config: dict[str, Any], gpu_hours: float) -> dict[str, Any]:
    more = {**config, "pilot_gpu_hours": config["pilot_gpu_hours"] + gpu_hours}
    if config.get(KEY) is None:
        return more
    total = config["target_gpu_hours"]
    return {**_champions_share(more, total, gpu_hours), "target_gpu_hours": total + gpu_hours}


def _champions_share(config: dict[str, Any], total: float, gpu_hours: float) -> dict[str, Any]:
    """Return settings whose challengers may have so many GPU-hours more, of so many more in all."""
    champion = config.get(KEY)
    if champion is None:
        return config
    share = (champion["challenger_share"] * total + gpu_hours) / (total + gpu_hours)
    return {**config, KEY: {**champion, "challenger_share": share}}
