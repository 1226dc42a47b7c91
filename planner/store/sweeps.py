"""Stores plans, the measured costs they start from, sweeps, and trials with their states; and sums up segments."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from sqlalchemy import case, func, insert, select
from sqlalchemy.orm import Session, selectinload
from sqlalchemy.orm.interfaces import ORMOption

from budgets.errors import NotFoundError
from budgets.hardware import SECONDS_PER_HOUR
from planner.store.base import values_of
from planner.store.costs import trials_of
from planner.store.schema import (
    IDENTITY,
    Candidate,
    Charge,
    CostRecord,
    Plan,
    Segment,
    SegmentOutcome,
    Sweep,
    SweepStatus,
    Transition,
    Trial,
)
from planner.view import FINAL_POLICY, TrialState, move


@dataclass(slots=True)
class Totals:
    """Sums over the segments of a sweep, and over what its workers were charged beside them."""

    by_outcome: dict[str, float] = field(default_factory=dict)  # GPU-hours of settled segments
    by_charge: dict[str, float] = field(default_factory=dict)  # GPU-hours of no segment: of workers idle or lost
    reserved: float = 0.0
    start_ups: int = 0  # segments of which it is known what they took beside their updates
    start_up_gpu_hours: float = 0.0  # of all of them
    running: list[datetime | None] = field(default_factory=list)  # since when open segments have a worker
    committed_step: dict[int, int] = field(default_factory=dict)  # by trial
    first_step: dict[tuple[int, int], int] = field(default_factory=dict)  # by trial and attempt

    @property
    def spent(self) -> float:
        """GPU-hours that are gone, whatever for."""
        return sum(self.by_outcome.values()) + sum(self.by_charge.values())

    def used(self, gpus: float, now: datetime) -> float:
        """Return the GPU-hours that open segments have used by now: each occupies its GPUs since a worker took it.

        That may be more than was reserved: a driver extends what starts slowly.
        """
        return sum(
            max(0.0, (now - since).total_seconds()) * gpus / SECONDS_PER_HOUR
            for since in self.running
            if since is not None
        )


def totals_of(session: Session, sweep_id: int) -> Totals:
    """Add up the segments and charges of a sweep; two queries, however many there are."""
    still_open = Segment.outcome == SegmentOutcome.RESERVED
    query = (
        select(
            Segment.trial_id,
            Segment.attempt,
            Segment.outcome,
            func.min(Segment.from_step),
            func.max(Segment.to_step),
            func.sum(Segment.charged_gpu_hours),
            func.sum(case((still_open, Segment.reserved_gpu_hours), else_=0.0)),
            func.min(case((still_open & Segment.worker.is_not(None), Segment.started_at))),
            func.count(Segment.start_up_gpu_hours),
            func.sum(Segment.start_up_gpu_hours),
        )
        .where(Segment.trial_id.in_(select(Trial.id).where(Trial.sweep_id == sweep_id)))
        .group_by(Segment.trial_id, Segment.attempt, Segment.outcome)
    )
    total = Totals()
    for trial, attempt, outcome, from_step, to_step, charged, reserved, since, starts, starting in session.execute(
        query
    ):
        total.start_ups += starts
        total.start_up_gpu_hours += starting or 0.0
        total.first_step[trial, attempt] = min(total.first_step.get((trial, attempt), from_step), from_step)
        total.reserved += reserved
        if outcome is SegmentOutcome.RESERVED:
            total.running.append(since)
            continue
        total.by_outcome[outcome] = total.by_outcome.get(outcome, 0.0) + (charged or 0.0)
        if outcome is SegmentOutcome.COMMITTED:
            total.committed_step[trial] = max(total.committed_step.get(trial, 0), to_step)
    charges = select(Charge.kind, func.sum(Charge.gpu_hours)).where(Charge.sweep_id == sweep_id)
    rows = session.execute(charges.group_by(Charge.kind).order_by(Charge.kind))
    total.by_charge = {kind: gpu_hours for kind, gpu_hours in rows}  # noqa: C416 (a result has keys of its own)
    return total


def spent_gpu_hours(session: Session, sweeps: Collection[int]) -> dict[int, float]:
    """Return, by sweep, the GPU-hours that are gone: what segments were charged, and workers beside them."""
    segments = select(Trial.sweep_id, func.sum(Segment.charged_gpu_hours)).join(Segment, Segment.trial_id == Trial.id)
    charges = select(Charge.sweep_id, func.sum(Charge.gpu_hours))
    spent: dict[int, float] = dict.fromkeys(sweeps, 0.0)
    for query, of in ((segments, Trial.sweep_id), (charges, Charge.sweep_id)):
        for sweep, gpu_hours in session.execute(query.where(of.in_(list(sweeps))).group_by(of)):
            spent[sweep] += gpu_hours or 0.0
    return spent


Row = TypeVar("Row", Plan, Sweep)


def save_plan(session: Session, plan: Plan, candidates: Sequence[Candidate], created_at: datetime) -> str:
    """Store a plan with its candidates under the next free name, and return the name."""
    plan.name, plan.created_at = next_name("plan", session.scalars(select(Plan.name))), created_at
    plan.candidates = list(candidates)
    session.add(plan)
    return plan.name


def plan_named(session: Session, name: str | None) -> Plan:
    """Return the plan of that name with its candidates in rank order, or the newest; raise NotFoundError if none is."""
    return _named(session, Plan, "plan", name, selectinload(Plan.candidates))


def sweep_named(session: Session, name: str | None) -> Sweep:
    """Return the sweep of that name, or the newest of pilots; raise NotFoundError if there is none."""
    if name is None:
        pilots = select(Sweep).where(Sweep.policy != FINAL_POLICY).order_by(Sweep.id.desc()).limit(1)
        if (newest := session.scalar(pilots)) is not None:
            return newest
    return _named(session, Sweep, "sweep", name)


def _named(session: Session, table: type[Row], kind: str, name: str | None, *options: ORMOption) -> Row:
    query = select(table).options(*options).order_by(table.id.desc()).limit(1)
    if name is not None:
        query = query.where(table.name == name)
    row = session.scalar(query)
    if row is None:
        raise NotFoundError(missing(kind, name, session.scalars(select(table.name).order_by(table.id))))
    return row


def add_cost_records(session: Session, records: Sequence[CostRecord]) -> None:
    """Store copies of measured costs."""
    if records:
        session.execute(insert(CostRecord), [values_of(record, "id") for record in records])


_ALIKE = (  # measured steps that a price must tell apart
    CostRecord.generator_gpus,
    CostRecord.trainer_gpus,
    CostRecord.colocated,
    CostRecord.engine_gpus,
    CostRecord.recipe,
    CostRecord.rollouts_per_prompt,
    CostRecord.prompts_per_batch,
    CostRecord.trainer,
    CostRecord.asynchronous,
    CostRecord.updates_per_step,
)


def cost_records(
    session: Session, gpu: str | None, model: str | None, most: int | None = None, sweep: str | None = None
) -> list[CostRecord]:
    """Return measured costs, oldest first, of one GPU, model or sweep or of all.

    Of more than about `most` some are left out, evenly over time and of those that were made alike.
    """
    query = select(CostRecord).order_by(CostRecord.at, CostRecord.id)
    chosen = [
        column == value for column, value in ((CostRecord.gpu, gpu), (CostRecord.model, model)) if value is not None
    ]
    if sweep is not None:
        chosen.append(CostRecord.trial_id.in_(trials_of(sweep)))
    if most is not None:
        alike = select(func.count(CostRecord.id).label("many")).where(*chosen).group_by(*_ALIKE).subquery()
        kinds, many = session.execute(select(func.count(), func.sum(alike.c.many))).one()
        if many and many > most:
            place = func.row_number().over(partition_by=_ALIKE, order_by=(CostRecord.at, CostRecord.id))
            count = func.count().over(partition_by=_ALIKE)
            placed = select(CostRecord.id, place.label("place"), count.label("count")).where(*chosen).subquery()
            share = max(1, most // kinds)
            every = (placed.c.count + share - 1) // share
            query = query.join(placed, placed.c.id == CostRecord.id).where((placed.c.place - 1) % every == 0)
    return list(session.scalars(query.where(*chosen)))


def next_name(kind: str, names: Iterable[str]) -> str:
    """Return the name after the highest taken one: 'plan-3' after 'plan-2', whatever else was named by hand."""
    numbers = [int(match[1]) for name in names if (match := re.fullmatch(rf"{kind}-(\d+)", name))]
    return f"{kind}-{max(numbers, default=0) + 1}"


def missing(kind: str, name: str | None, existing: Iterable[str]) -> str:
    """Say that there is no such plan or sweep, which there are, and what to do."""
    names = list(existing)
    if not names:
        remedy = "rlplan propose --budget 5000" if kind == "plan" else "rlplan sweep"
        name_part = "" if name is None else f" '{name}', or any other"
        return f"there is no {kind}{name_part} in this database yet. Run: {remedy}"
    which = "the newest are" if len(names) > 5 else "there are"
    return f"there is no {kind} '{name}'; {which}: {', '.join(names[-5:])}"


def create_sweep(
    session: Session, plan: str | None, sweep: Sweep, created_at: datetime, *, name: str | None = None
) -> str:
    """Store a sweep of a plan, or of the newest plan, under a name or the next free one, and return the name."""
    sweep.plan_id, sweep.created_at, sweep.status = plan_named(session, plan).id, created_at, SweepStatus.CREATED
    sweep.name = next_name("sweep", session.scalars(select(Sweep.name))) if name is None else name
    session.add(sweep)
    return sweep.name


def add_trial(session: Session, sweep: str, trial: Trial, at: datetime) -> int:
    """Plan a trial and return its id; one that the sweep already has is found, not doubled, and stays as it is."""
    trial.sweep_id, trial.axes = sweep_named(session, sweep).id, trial.axes or ()
    number = session.scalar(select(Trial.id).filter_by(**{name: getattr(trial, name) for name in IDENTITY}))
    if number is not None:
        return number
    trial.state, trial.attempt, trial.created_at, trial.updated_at = TrialState.PLANNED, 1, at, at
    session.add(trial)
    session.flush()
    session.add(Transition(trial_id=trial.id, from_state=None, to_state=trial.state, at=at, reason="planned"))
    return trial.id


def move_trial(
    session: Session,
    trial_id: int,
    to_state: TrialState,
    at: datetime,
    reason: str,
    failure_class: str | None = None,
    failure_tail: str | None = None,
) -> None:
    """Move a trial to a state that it can reach, and store the move; leaving failed or lost begins a new attempt."""
    trial = trial_with(session, trial_id)
    old = trial.state
    trial.state = move(old, to_state)
    trial.updated_at = at
    if old in (TrialState.FAILED, TrialState.LOST):
        # Points of the new attempt then stand beside those of the old one at the same steps, and win.
        trial.attempt += 1
    trial.failure_class, trial.failure_tail = failure_class, failure_tail
    session.add(Transition(trial_id=trial_id, from_state=old, to_state=to_state, at=at, reason=reason))


def trial_with(session: Session, trial_id: int) -> Trial:
    """Return the trial with that id; raise NotFoundError if there is none."""
    trial = session.get(Trial, trial_id)
    if trial is None:
        raise NotFoundError(f"there is no trial with id {trial_id}")
    return trial
