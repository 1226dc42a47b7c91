"""Lists what a database holds: a row for each plan, a row for each sweep."""

from typing import Any

from sqlalchemy import func, select

from planner.store import Store
from planner.store.schema import Candidate, Charge, Plan, Sweep, Trial


def plan_rows(store: Store) -> list[dict[str, Any]]:
    """Return the plans, the newest first."""
    count = select(func.count()).where(Candidate.plan_id == Plan.id).correlate(Plan).scalar_subquery()
    wanted = select(
        Plan.name,
        Plan.created_at,
        Plan.budget_gpu_hours,
        Plan.pilot_gpu_hours,
        Plan.final_gpu_hours,
        Plan.recipe,
        Plan.difficulty,
        Plan.workload,
        Plan.hardware,
        count.label("candidates"),
    ).order_by(Plan.id.desc())
    with store.read() as session:
        rows = [row._asdict() for row in session.execute(wanted)]
    return [
        row
        | {
            "plan": row["name"],
            "model": row["workload"].get("model"),
            "gpu": row["hardware"].get("gpu"),
            "gpus": row["hardware"].get("gpus", 0),
        }
        for row in rows
    ]


def sweep_rows(store: Store) -> list[dict[str, Any]]:
    """Return the sweeps, the newest first; what workers used up beside their trials counts as spent too."""
    of_trials = select(func.coalesce(func.sum(Trial.gpu_hours_spent), 0.0)).where(Trial.sweep_id == Sweep.id)
    of_others = select(func.coalesce(func.sum(Charge.gpu_hours), 0.0)).where(Charge.sweep_id == Sweep.id)
    trials = select(func.count()).where(Trial.sweep_id == Sweep.id)
    spent = of_trials.correlate(Sweep).scalar_subquery() + of_others.correlate(Sweep).scalar_subquery()
    wanted = (
        select(
            Sweep.name,
            Plan.name.label("plan"),
            Sweep.created_at,
            Sweep.finished_at,
            Sweep.status,
            Sweep.policy,
            Sweep.seed,
            trials.correlate(Sweep).scalar_subquery().label("trials"),
            spent.label("gpu_hours_spent"),
        )
        .join(Plan, Plan.id == Sweep.plan_id)
        .order_by(Sweep.id.desc())
    )
    with store.read() as session:
        rows = [row._asdict() for row in session.execute(wanted)]
    return [row | {"sweep": row["name"], "status": row["status"].value} for row in rows]
