"""The plans and sweeps of a database, as lists of them show them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import case, exists, func, select
from sqlalchemy.orm import Session, selectinload

from budgets.errors import NotFoundError
from planner.store.control import pausing
from planner.store.schema import Candidate, Plan, Recommendation, Segment, SegmentOutcome, Sweep, SweepStatus, Trial
from planner.store.sweeps import missing, spent_gpu_hours
from planner.view import Axes, TrialState
from rlplan.wording.numbers import layout_text, shares
from runner.processes import has_driver
from runner.sweep.plan_rows import workload_name

MOST = 10


def unrun_plans(session: Session) -> Sequence[Plan]:
    """Return the plans that no sweep has run, the newest first; no more than one would look through."""
    query = select(Plan).options(selectinload(Plan.candidates)).where(~exists().where(Sweep.plan_id == Plan.id))
    return session.scalars(query.order_by(Plan.id.desc()).limit(MOST)).all()


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
    query = select(Plan).options(selectinload(Plan.candidates))
    if name is not None:
        query = query.where(Plan.name == name)
    plan = session.scalar(query.order_by(Plan.id.desc()).limit(1))
    if plan is None and name is not None:
        names = [*session.scalars(select(Plan.name).order_by(Plan.id)), *session.scalars(select(Sweep.name))]
        raise NotFoundError(missing("sweep or plan", name, names))
    return plan


# How a sweep that counts as running stands where it does not run.
WITHOUT_DRIVER, PAUSED = "without a driver", "paused"
ANSWERED = ("rollouts_per_prompt", "prompts_per_batch", "update_steps", "expected_score", "score_low", "score_high")
NONE = (0, 0, 0)
STATES = (*(status.value for status in SweepStatus), PAUSED, WITHOUT_DRIVER)


@dataclass(frozen=True, slots=True)
class ListedSweep:
    """One sweep in the list; what it recommends is None where it says nothing yet."""

    id: int = field(repr=False)
    sweep: str
    plan: str
    workload: str
    policy: str
    seed: int
    status: SweepStatus
    state: str
    created_at: datetime
    finished_at: datetime | None
    trials: int
    running: int
    failed: int
    spent_gpu_hours: float
    reserved_gpu_hours: float
    pilot_gpu_hours: float
    rollouts_per_prompt: int | None
    prompts_per_batch: int | None
    update_steps: int | None
    expected_score: float | None
    score_low: float | None
    score_high: float | None
    axes: Axes = ()


def listed_sweeps(session: Session, now: datetime) -> list[ListedSweep]:
    """Return the sweeps, the newest first."""
    columns = (Sweep, Plan.name, Plan.workload, Plan.pilot_gpu_hours)
    rows = session.execute(select(*columns).join(Plan, Plan.id == Sweep.plan_id).order_by(Sweep.id.desc())).all()
    ids = [row[0].id for row in rows]
    held, trials, answers = pausing(session), _trials(session, ids), _answers(session, ids)
    under_way = (
        select(Trial.sweep_id, func.sum(Segment.reserved_gpu_hours))
        .join(Segment, Segment.trial_id == Trial.id)
        .where(Trial.sweep_id.in_(ids), Segment.outcome == SegmentOutcome.RESERVED)
        .group_by(Trial.sweep_id)
    )
    reserved = {row[0]: row[1] for row in session.execute(under_way)}
    charged = spent_gpu_hours(session, ids)

    return [
        ListedSweep(
            id=sweep.id,
            sweep=sweep.name,
            plan=plan,
            workload=workload_name(sweep.config, workload),
            policy=sweep.policy,
            seed=sweep.seed,
            status=sweep.status,
            state=state_of(sweep.status, driven=has_driver(sweep, now), paused=sweep.id in held),
            created_at=sweep.created_at,
            finished_at=sweep.finished_at,
            trials=trials.get(sweep.id, NONE)[0],
            running=trials.get(sweep.id, NONE)[1],
            failed=trials.get(sweep.id, NONE)[2],
            spent_gpu_hours=charged[sweep.id],
            reserved_gpu_hours=reserved.get(sweep.id, 0.0),
            pilot_gpu_hours=float(sweep.config.get("pilot_gpu_hours", planned)),
            axes=answers[sweep.id].axes if sweep.id in answers else (),
            **{name: getattr(answers.get(sweep.id), name, None) for name in ANSWERED},
        )
        for sweep, plan, workload, planned in rows
    ]


def state_of(status: SweepStatus, *, driven: bool, paused: bool) -> str:
    """Return in a word or two how a sweep stands."""
    if status is not SweepStatus.RUNNING:
        return status.value
    return WITHOUT_DRIVER if not driven else PAUSED if paused else status.value


def listed_plans(session: Session) -> list[dict[str, Any]]:
    """Return the plans, the newest first."""
    count = select(func.count()).where(Candidate.plan_id == Plan.id).correlate(Plan).scalar_subquery()
    columns = (
        Plan.name.label("plan"),
        Plan.created_at,
        Plan.budget_gpu_hours,
        Plan.pilot_gpu_hours,
        Plan.final_gpu_hours,
        Plan.recipe,
        Plan.difficulty,
        Plan.workload,
        Plan.hardware,
        count.label("candidates"),
    )
    rows = session.execute(select(*columns).order_by(Plan.id.desc()))
    return [{"gpus": 0, **row.workload, **row.hardware, **row._asdict()} for row in rows]


def plans_without_sweep(session: Session) -> list[str]:
    """Return the names of plans that no sweep has run, the oldest first."""
    return list(session.scalars(select(Plan.name).where(Plan.id.not_in(select(Sweep.plan_id))).order_by(Plan.id)))


def _trials(session: Session, sweeps: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Return how many trials there are, run and have failed."""

    def counted(state: TrialState) -> Any:
        return func.sum(case((Trial.state == state, 1), else_=0))

    columns = (Trial.sweep_id, func.count(), counted(TrialState.RUNNING), counted(TrialState.FAILED))
    query = select(*columns).where(Trial.sweep_id.in_(sweeps)).group_by(Trial.sweep_id)
    return {sweep: tuple(counts) for sweep, *counts in session.execute(query)}


def _answers(session: Session, sweeps: Collection[int]) -> dict[int, Recommendation]:
    newest = (
        select(func.max(Recommendation.id)).where(Recommendation.sweep_id.in_(sweeps)).group_by(Recommendation.sweep_id)
    )
    rows = session.scalars(select(Recommendation).where(Recommendation.id.in_(newest)))
    return {row.sweep_id: row for row in rows}
