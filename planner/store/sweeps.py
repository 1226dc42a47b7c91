"""Stores plans, the measured costs they start from, sweeps, and trials with their states."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session, selectinload
from sqlalchemy.orm.interfaces import ORMOption

from budgets.errors import NotFoundError
from planner.store.final_tables import Final
from planner.store.records import NewCandidate, NewCostRecord, NewPlan, NewSweep, NewTrial
from planner.store.schema import Candidate, CostRecord, Plan, Sweep, SweepStatus, Transition, Trial
from planner.trials import TrialState, move

Row = TypeVar("Row", Plan, Sweep)


def save_plan(session: Session, plan: NewPlan, candidates: Sequence[NewCandidate], created_at: datetime) -> str:
    """Store a plan with its candidates under the next free name, and return the name."""
    name = next_name("plan", session.scalars(select(Plan.name)))
    rows = [Candidate(**vars(candidate)) for candidate in candidates]
    session.add(Plan(name=name, created_at=created_at, candidates=rows, **vars(plan)))
    return name


def plan_named(session: Session, name: str | None) -> Plan:
    """Return the plan of that name with its candidates in rank order, or the newest; raise NotFoundError if none is."""
    return _named(session, Plan, "plan", name, selectinload(Plan.candidates))


def sweep_named(session: Session, name: str | None) -> Sweep:
    """Return the sweep of that name, or the newest of pilots; raise NotFoundError if there is none."""
    if name is None:
        pilots = select(Sweep).where(Sweep.id.not_in(select(Final.sweep_id))).order_by(Sweep.id.desc()).limit(1)
        if (newest := session.scalar(pilots)) is not None:
            return newest
    return _named(session, Sweep, "sweep", name)


def _named(session: Session, table: type[Row], kind: str, name: str | None, *options: ORMOption) -> Row:
    wanted = select(table).options(*options).order_by(table.id.desc()).limit(1)
    if name is not None:
        wanted = wanted.where(table.name == name)
    found = session.scalar(wanted)
    if found is None:
        raise NotFoundError(missing(kind, name, session.scalars(select(table.name).order_by(table.id))))
    return found


def add_cost_records(session: Session, records: Sequence[NewCostRecord]) -> None:
    """Store measured costs."""
    if records:
        session.execute(insert(CostRecord), [vars(record) for record in records])


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


def cost_records(session: Session, gpu: str | None, model: str | None, most: int | None = None) -> list[CostRecord]:
    """Return measured costs, oldest first, of one GPU or model or of all.

    Of more than about `most` some are left out, evenly over time and of those that were made alike.
    """
    wanted = select(CostRecord).order_by(CostRecord.at, CostRecord.id)
    chosen = [
        column == value for column, value in ((CostRecord.gpu, gpu), (CostRecord.model, model)) if value is not None
    ]
    if most is not None:
        alike = select(func.count(CostRecord.id).label("many")).where(*chosen).group_by(*_ALIKE).subquery()
        kinds, many = session.execute(select(func.count(), func.sum(alike.c.many))).one()
        if many and many > most:
            place = func.row_number().over(partition_by=_ALIKE, order_by=(CostRecord.at, CostRecord.id))
            count = func.count().over(partition_by=_ALIKE)
            placed = select(CostRecord.id, place.label("place"), count.label("count")).where(*chosen).subquery()
            share = max(1, most // kinds)
            every = (placed.c.count + share - 1) // share
            wanted = wanted.join(placed, placed.c.id == CostRecord.id).where((placed.c.place - 1) % every == 0)
    return list(session.scalars(wanted.where(*chosen)))


def next_name(kind: str, taken: Iterable[str]) -> str:
    """Return the name after the highest taken one: 'plan-3' after 'plan-2', whatever else was named by hand."""
    numbers = [int(match[1]) for name in taken if (match := re.fullmatch(rf"{kind}-(\d+)", name))]
    return f"{kind}-{max(numbers, default=0) + 1}"


def missing(kind: str, name: str | None, existing: Iterable[str]) -> str:
    """Say that there is no such plan or sweep, which there are, and what to do."""
    names = list(existing)
    if not names:
        remedy = "rlplan propose --budget 5000" if kind == "plan" else "rlplan sweep"
        asked = "" if name is None else f" '{name}', or any other"
        return f"there is no {kind}{asked} in this database yet. Run: {remedy}"
    which = "the newest are" if len(names) > 5 else "there are"
    return f"there is no {kind} '{name}'; {which}: {', '.join(names[-5:])}"


def create_sweep(
    session: Session, plan: str | None, sweep: NewSweep, created_at: datetime, *, name: str | None = None
) -> str:
    """Store a sweep of a plan, or of the newest plan, under a name or the next free one, and return the name."""
    plan_id = plan_named(session, plan).id
    name = next_name("sweep", session.scalars(select(Sweep.name))) if name is None else name
    session.add(Sweep(plan_id=plan_id, name=name, created_at=created_at, status=SweepStatus.CREATED, **vars(sweep)))
    return name


def add_trial(session: Session, sweep: str, trial: NewTrial, at: datetime) -> int:
    """Plan a trial and return its id; one that the sweep already has is found, not doubled, and stays as it is."""
    sweep_id = sweep_named(session, sweep).id
    identity = {
        "sweep_id": sweep_id,
        "rollouts_per_prompt": trial.rollouts_per_prompt,
        "prompts_per_batch": trial.prompts_per_batch,
        "recipe": trial.recipe,
        "learning_rate": trial.learning_rate,
        "seed": trial.seed,
        "axes": trial.axes,
    }
    known = session.scalar(select(Trial.id).filter_by(**identity))
    if known is not None:
        return known
    state = TrialState.PLANNED
    row = Trial(sweep_id=sweep_id, state=state, attempt=1, created_at=at, updated_at=at, **vars(trial))
    session.add(row)
    session.flush()
    session.add(Transition(trial_id=row.id, from_state=None, to_state=state, at=at, reason="planned"))
    return row.id


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
