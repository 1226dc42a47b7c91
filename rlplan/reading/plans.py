"""Stored plans that no sweep has run."""

from collections.abc import Sequence

from sqlalchemy import exists, select
from sqlalchemy.orm import Session, selectinload

from budgets.errors import NotFoundError
from planner.store.schema import Plan, Sweep
from planner.store.sweeps import missing
from rlplan.wording.numbers import layout_text, shares

MOST = 10


def unrun_plans(session: Session) -> Sequence[Plan]:
    """Return the plans that no sweep has run, the newest first; no more than one would look through."""
    wanted = select(Plan).options(selectinload(Plan.candidates)).where(~exists().where(Sweep.plan_id == Plan.id))
    return session.scalars(wanted.order_by(Plan.id.desc()).limit(MOST)).all()


def about_plan(plan: Plan) -> str:
    """Say what a plan is for: model, machine, problems and recipe."""
    models = ", ".join(plan.workload.get("models") or [plan.workload.get("model", "a model")])
    gpus, each = plan.hardware.get("gpus"), plan.hardware.get("gpus_per_trial")
    machine = " ".join(str(part) for part in (gpus, plan.hardware.get("gpu", "GPUs")) if part)
    per_pilot = plan.hardware.get("pilot_gpus") if plan.pilot_gpu_hours else None
    share = shares(gpus, each, per_pilot or each) if gpus and each else ""
    recipes = f"{'recipes' if ',' in plan.recipe else 'recipe'} {plan.recipe}"
    return f"{models} on {machine}{share}, {plan.difficulty} problems, {recipes}"


def layout_of(plan: Plan, pilots: int) -> str:
    """Say how so many pilots and the final run share the GPUs; nothing where they have the same."""
    gpus, each = plan.hardware.get("gpus"), plan.hardware.get("gpus_per_trial")
    if not gpus or not each:
        return ""
    return layout_text(gpus, each, plan.hardware.get("pilot_gpus") or each, pilots)


def plan_meant(session: Session, name: str | None) -> Plan | None:
    """Return the plan of a name that no sweep has, or the newest plan where there is no sweep at all.

    NotFoundError names both kinds where a name is neither's: who typed it may have meant the other.
    """
    ran = select(Sweep.id) if name is None else select(Sweep.id).where(Sweep.name == name)
    if session.scalar(ran.limit(1)) is not None:
        return None
    wanted = select(Plan).options(selectinload(Plan.candidates))
    if name is not None:
        wanted = wanted.where(Plan.name == name)
    plan = session.scalar(wanted.order_by(Plan.id.desc()).limit(1))
    if plan is None and name is not None:
        names = [*session.scalars(select(Plan.name).order_by(Plan.id)), *session.scalars(select(Sweep.name))]
        raise NotFoundError(missing("sweep or plan", name, names))
    return plan
