"""What `rlplan sweep`, `resume` and `retry` do, callable from Python: store the sweep, drive it, say how it ended.

The order matters: what cannot run is refused before anything is stored, and everything is stored before it runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import InputError, NotFoundError, UnknownNameError
from planner.checking import explained
from planner.store import Store, open_store
from planner.store.driving import Driver, take_lease
from planner.store.engine import locate
from planner.store.records import NewDecision, NewSweep
from planner.store.results import record_decision
from planner.store.schema import Plan, Sweep, SweepStatus, Trial
from planner.store.sweeps import add_trial, create_sweep, move_trial, plan_named, sweep_named
from planner.sweeping.opening import open_policy
from planner.trials import TrialState
from rlplan.actions.driving import Began, Seat, drive, machine, take
from rlplan.actions.proposing import load_configuration, make_plan
from runner.sweep.driver import Interrupts, Outcome
from runner.sweep.fingerprint import code_fingerprint, configuration_fingerprint
from runner.sweep.planning import SweepChoice, TrainingChoice, new_trials, shortfall, sweep_spec, trial_name
from runner.sweep.processes import this_driver
from runner.sweep.spec import SweepSpec


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """What `rlplan sweep` was asked for; None stands for what was not given."""

    plan: str | None = None
    task: str | None = None
    budget: Any = None
    config: Path | None = None
    flags: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    policy: str = "rlplan"
    search: str | None = None
    seed: int = 0
    workers: Any = None
    ray_address: str | None = None
    folder: Path | None = None
    retries: Any = 3
    training: TrainingChoice = field(default_factory=TrainingChoice)


@dataclass(frozen=True, slots=True)
class Finished:
    """A sweep as far as it went."""

    sweep: str
    interrupted: bool
    failed_trials: int
    all_failed: str | None
    spent_gpu_hours: float
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial that a sweep would run."""

    name: str
    rollouts_per_prompt: int
    prompts_per_batch: int
    pilot_steps: int
    segment_steps: int
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a sweep would do."""

    plan: str
    trials: tuple[PlannedTrial, ...]
    workers: int
    pilot_gpu_hours: float
    wall_hours: float
    shortfall: str | None


def start(
    request: SweepRequest,
    database: str,
    *,
    interrupts: Interrupts | None = None,
    began: Began = lambda sweep: None,
) -> Finished:
    """Store a sweep of a plan, new or given, and run it."""
    plan_name = _plan(request, database)
    with open_store(database) as store:
        plan = store.plan(plan_name)
        spec = _spec(request, plan, database)
        if request.ray_address is None:
            _require_fit(spec, plan)
        driver = this_driver()
        sweep, spec = _store(store, plan, spec, driver)
        outcome = drive(store, sweep, spec, plan, Seat(driver, request.ray_address, interrupts, began))
        return _finished(sweep, outcome)


def describe(request: SweepRequest, database: str) -> DryRun:
    """Say what a sweep would run, without storing a sweep or starting a worker; a plan that is made is stored."""
    plan_name = _plan(request, database)
    with open_store(database) as store:
        plan = store.plan(plan_name)
    spec = _spec(request, plan, database)
    trials = tuple(
        PlannedTrial(
            trial_name(each.rollouts_per_prompt, each.prompts_per_batch, spec.seed, each.axes),
            each.rollouts_per_prompt,
            each.prompts_per_batch,
            each.pilot_steps,
            each.segment_steps,
            each.pilot_gpu_hours,
        )
        for each in plan.candidates
        if each.pilot_steps
    )
    lacking = shortfall(spec, plan, *machine()) if request.ray_address is None else None
    wall = sum(trial.gpu_hours for trial in trials) / (spec.workers * spec.resources.slots)
    return DryRun(plan.name, trials, spec.workers, plan.pilot_gpu_hours, wall, lacking)


def resume(
    sweep: str | None,
    database: str,
    *,
    accept_changes: bool = False,
    ray_address: str | None = None,
    workers: Any = None,
    interrupts: Interrupts | None = None,
    began: Began = lambda sweep: None,
) -> Finished:
    """Go on with a sweep, the newest if none is named: the plan minus what is finished."""
    with open_store(database) as store:
        with store.read() as session:
            row = sweep_named(session, sweep)
        if row.status in (SweepStatus.FINISHED, SweepStatus.FAILED):
            raise NotFoundError(
                f"{row.name} has ended ({row.status}): nothing is left to do. `rlplan status {row.name}` shows it; "
                f"`rlplan retry {row.name}` runs its failed trials again"
            )
        seat = Seat(this_driver(), ray_address, interrupts, began)
        return _go_on(store, row, (), seat, accept_changes=accept_changes, workers=workers)


def retry(
    sweep: str | None,
    database: str,
    *,
    trials: Sequence[str] = (),
    accept_changes: bool = False,
    ray_address: str | None = None,
    workers: Any = None,
    interrupts: Interrupts | None = None,
    began: Began = lambda sweep: None,
) -> Finished:
    """Run a sweep's failed trials again, all or those that are named, and go on with the rest."""
    with open_store(database) as store:
        with store.read() as session:
            row = sweep_named(session, sweep)
            failed = _failed(session, row, trials)
        seat = Seat(this_driver(), ray_address, interrupts, began)
        return _go_on(store, row, failed, seat, accept_changes=accept_changes, workers=workers)


def _go_on(
    store: Store, row: Sweep, again: Sequence[int], seat: Seat, *, accept_changes: bool, workers: Any
) -> Finished:
    spec = SweepSpec.model_validate(row.config)
    changes = _changes(row, spec)
    if changes and not accept_changes:
        raise InputError(
            f"{row.name} was begun with other {' and '.join(changes)} than there are now, and its curves would no "
            "longer compare: go back to what it was begun with, or go on all the same with --accept-changes"
        )
    here = spec if workers is None else _checked(spec, workers)
    with store.read() as session:
        plan = plan_named(session, session.get_one(Plan, row.plan_id).name)
    take(store, row, seat.driver)
    now = datetime.now(UTC)
    with store.write() as session:
        stored = sweep_named(session, row.name)
        stored.code_hash, stored.config_hash = code_fingerprint(), configuration_fingerprint(spec)
        for trial in again:
            move_trial(session, trial, TrialState.PLANNED, now, "to be run again", None, None)
        if changes:
            reason = f"went on although its {' and '.join(changes)} had changed"
            record_decision(session, row.name, NewDecision(now, "accept-changes", reason))
    return _finished(row.name, drive(store, row.name, here, plan, seat))


def _plan(request: SweepRequest, database: str) -> str | None:
    """Return the plan to run: the one that is named, one made for the given budget, or None for the newest."""
    if request.budget is None and request.task is None and all(value is None for _, value in request.flags.values()):
        return request.plan
    if request.plan is not None:
        raise InputError(
            f"a plan ({request.plan}) and what makes a new one (--budget, --task, …) are both given: the plan has its "
            "own, leave one of them out"
        )
    flags = {**request.flags, "budget.gpu_hours": ("--budget", request.budget)}
    return make_plan(load_configuration(request.config, request.task, flags), database).name


def _spec(request: SweepRequest, plan: Plan, database: str) -> SweepSpec:
    choice = SweepChoice(
        policy=request.policy,
        folder=_folder(request.folder, database),
        search=_search(request.search, plan),
        seed=request.seed,
        workers=request.workers,
        retries=request.retries,
        training=request.training,
    )
    open_policy(choice.policy, search=choice.search)  # refuses what is not known, before anything is stored
    return sweep_spec(plan, choice)


def _search(given: str | None, plan: Plan) -> str | None:
    """Return what proposes trials; without a word about it, something does where a learning rate is to be found."""
    if given is None:
        return "tpe" if (plan.config.get("axes") or {}).get("learning_rate_range") else None
    return None if given == "none" else given


def _folder(given: Path | None, database: str) -> Path:
    """Return the folder above those of the database's sweeps: beside an SQLite file, else in the working directory."""
    if given is not None:
        return given
    place = locate(database)
    return place.with_name(f"{place.stem}-sweeps") if isinstance(place, Path) else Path("rlplan-sweeps")


def _store(store: Store, plan: Plan, spec: SweepSpec, driver: Driver) -> tuple[str, SweepSpec]:
    """Store a sweep with its trials, and hold it from its first moment."""
    now = datetime.now(UTC)
    with store.write() as session:
        new = NewSweep(spec.policy, spec.seed, {}, "", code_fingerprint())
        name = create_sweep(session, plan.name, new, now)
        own = spec.model_copy(update={"folder": str(_own_folder(Path(spec.folder), name))})
        row = sweep_named(session, name)
        row.config, row.config_hash = own.model_dump(mode="json"), configuration_fingerprint(own)
        for trial in new_trials(own, plan):
            add_trial(session, name, trial, now)
        take_lease(session, name, driver, now)
    return name, own


def _own_folder(above: Path, sweep: str) -> Path:
    """Make a folder that no other sweep has: one of that name in another database may have left its own there."""
    own, number = above / sweep, 1
    while True:
        try:
            own.mkdir(parents=True)
        except OSError as error:
            if not (isinstance(error, FileExistsError) and own.exists()):
                why = error.strerror or str(error)
                raise InputError(f"the sweep's folder '{own}' cannot be made ({why}): give another --folder") from error
            number += 1
            own = above / f"{sweep}-{number}"
        else:
            return own


def _require_fit(spec: SweepSpec, plan: Plan) -> None:
    lacking = shortfall(spec, plan, *machine())
    if lacking is not None:
        raise InputError(lacking)


def _failed(session: Session, sweep: Sweep, names: Sequence[str]) -> list[int]:
    """Return the ids of a sweep's failed trials, or of those that are named."""
    rows = list(session.scalars(select(Trial).where(Trial.sweep_id == sweep.id).order_by(Trial.id)))
    failed = {row.name: row.id for row in rows if row.state is TrialState.FAILED}
    for name in names:
        if name not in {row.name for row in rows}:
            raise UnknownNameError("trial", name, [row.name for row in rows])
        if name not in failed:
            state = next(row.state for row in rows if row.name == name)
            raise InputError(
                f"trial {name} is {state}: only failed trials are run again ({', '.join(failed) or 'none'})"
            )
    if not failed:
        raise NotFoundError(f"no trial of {sweep.name} has failed: nothing is to be run again")
    return [failed[name] for name in names] if names else list(failed.values())


def _changes(row: Sweep, spec: SweepSpec) -> list[str]:
    changes = []
    if row.code_hash != code_fingerprint():
        changes.append("code")
    if row.config_hash != configuration_fingerprint(spec):
        changes.append("files (problems, reward or model)")
    return changes


def _checked(spec: SweepSpec, workers: Any) -> SweepSpec:
    try:
        return SweepSpec.model_validate({**spec.model_dump(), "workers": workers})
    except ValidationError as error:
        raise explained(error, SweepSpec, {"workers": "--workers"}, "the sweep") from error


def _finished(sweep: str, outcome: Outcome) -> Finished:
    notes = []
    if outcome.overrun_gpu_hours > 0:
        notes.append(f"{outcome.overrun_gpu_hours:.4g} GPU-hours beyond the pilot budget were used up by workers")
    return Finished(
        sweep=sweep,
        interrupted=outcome.status is SweepStatus.INTERRUPTED,
        failed_trials=outcome.failed_trials,
        all_failed=outcome.all_failed,
        spent_gpu_hours=outcome.spent_gpu_hours,
        notes=tuple(notes),
    )
