"""More GPU-hours for a sweep, also one that has ended: its plan has them from then on, and the promise holds for it."""

from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import InputError
from planner.champion.terms import KEY
from planner.store.finals import Final
from planner.store.results import record_decision
from planner.store.schema import Plan, Sweep, SweepStatus
from runner.processes import has_driver
from runner.sweep.fingerprint import configuration_fingerprint
from runner.sweep.spec import SweepSpec


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
