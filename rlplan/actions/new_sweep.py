"""Stores a new sweep: its row and its trials, in a folder and a storage that no other has; adds money to one."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import InputError
from planner.policy.champion import KEY
from planner.store.control import Driver, take_lease
from planner.store.finals import Final
from planner.store.results import record_decision
from planner.store.schema import Plan, Sweep, SweepStatus, Trial
from planner.store.sweeps import add_trial, create_sweep, plan_named, sweep_named
from runner.processes import has_driver
from runner.sweep.fingerprint import code_fingerprint, configuration_fingerprint
from runner.sweep.home import mark_folder, mark_storage, new_folder, token_of
from runner.sweep.spec import SweepSpec


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
    own = spec.model_copy(update={"folder": str(new_folder(Path(spec.folder), row.name, database)), "storage": place})
    row.config, row.config_hash = own.model_dump(mode="json"), configuration_fingerprint(own)
    stored = [add_trial(session, row.name, trial, now) for trial in trials(own)]
    if driver is not None:
        take_lease(session, row.name, driver, now)
    if own.storage is not None:
        mark_storage(own.storage, Path(own.folder), row, database)
    mark_folder(Path(own.folder), row, database)
    return row, own, stored


def require_alone(session: Session, plan_id: int, own: int | None = None) -> None:
    """Refuse what would spend a plan's budget beside another that does: they would know nothing of each other."""
    for row in session.scalars(select(Sweep).where(Sweep.plan_id == plan_id, Sweep.id != (own or 0))):
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
