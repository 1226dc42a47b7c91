"""Stores plans and the measured costs they start from."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import insert, select
from sqlalchemy.orm import Session, selectinload

from budgets.errors import NotFoundError
from planner.store.records import NewCandidate, NewCostRecord, NewPlan
from planner.store.schema import Candidate, CostRecord, Plan


def save_plan(session: Session, plan: NewPlan, candidates: Sequence[NewCandidate], created_at: datetime) -> str:
    """Store a plan with its candidates under the next free name, and return the name."""
    name = next_name("plan", session.scalars(select(Plan.name)))
    rows = [Candidate(**vars(candidate)) for candidate in candidates]
    session.add(Plan(name=name, created_at=created_at, candidates=rows, **vars(plan)))
    return name


def plan_named(session: Session, name: str | None) -> Plan:
    """Return the plan of that name with its candidates in rank order, or the newest; raise NotFoundError if none is."""
    wanted = select(Plan).options(selectinload(Plan.candidates)).order_by(Plan.id.desc()).limit(1)
    if name is not None:
        wanted = wanted.where(Plan.name == name)
    plan = session.scalar(wanted)
    if plan is None:
        raise NotFoundError(missing("plan", name, session.scalars(select(Plan.name).order_by(Plan.id))))
    return plan


def add_cost_records(session: Session, records: Sequence[NewCostRecord]) -> None:
    """Store measured costs."""
    if records:
        session.execute(insert(CostRecord), [vars(record) for record in records])


def cost_records(session: Session, gpu: str | None, model: str | None) -> list[CostRecord]:
    """Return measured costs, oldest first, of one GPU or model or of all."""
    wanted = select(CostRecord).order_by(CostRecord.at, CostRecord.id)
    if gpu is not None:
        wanted = wanted.where(CostRecord.gpu == gpu)
    if model is not None:
        wanted = wanted.where(CostRecord.model == model)
    return list(session.scalars(wanted))


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
