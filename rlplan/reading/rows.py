"""Reads what a story has beside the picture: segments, charges, decisions, the plan's cells and its assumptions."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from planner.store.schema import Candidate, Charge, Plan, Segment, Trial
from planner.store.schema import Decision as DecisionRow
from rlplan.reading.damage import Damage
from rlplan.reading.story import Assumption, Cell, Charged, Decision, Stretch
from rlplan.reading.sweep_trials import Memory

NO_WORKER = "no worker yet"


@dataclass(frozen=True, slots=True)
class Priced:
    """A configuration of the plan with the 90 % interval of its planned price."""

    cell: Cell
    low: float
    high: float


def stretches(session: Session, sweep_id: int, damage: Damage, memory: Memory) -> tuple[Stretch, ...]:
    """Return the segments of a sweep in the order of their start; those that had ended are not read again."""
    upto, known = _remembered(memory, "stretches", sweep_id)
    wanted = (
        select(
            Segment.id,
            Segment.worker,
            Segment.trial_id,
            Trial.name,
            Segment.number,
            Segment.attempt,
            Segment.from_step,
            Segment.to_step,
            Segment.started_at,
            Segment.ended_at,
            Segment.outcome,
            Segment.reserved_gpu_hours,
            Segment.charged_gpu_hours,
        )
        .join(Trial, Trial.id == Segment.trial_id)
        .where(Trial.sweep_id == sweep_id, Segment.id > upto)
        .order_by(Segment.id)
    )
    noted = len(damage.found)
    found: list[tuple[int, Stretch]] = []
    for number, worker, *rest in damage.rows(session, wanted, "segment", Segment.id):
        stretch = Stretch(worker or NO_WORKER, *rest)
        if damage.whole(stretch, f"segment {stretch.number} of {stretch.name}"):
            found.append((number, stretch))
    if len(damage.found) == noted:
        ended = list(takewhile(lambda each: each[1].ended_at is not None, found))
        if ended:
            _remember(memory, "stretches", sweep_id, ended[-1][0], (*known, *(stretch for _, stretch in ended)))
    return tuple(sorted((*known, *(stretch for _, stretch in found)), key=lambda each: each.started_at))


def _remembered(memory: Memory, name: str, sweep_id: int) -> tuple[int, tuple[Any, ...]]:
    """Return up to which number rows of a sweep are known, and these."""
    mark, rows = memory.get(name, (None, ()))
    return (mark[1], rows) if isinstance(mark, tuple) and mark[0] == sweep_id else (0, ())


def _remember(memory: Memory, name: str, sweep_id: int, upto: int, rows: tuple[Any, ...]) -> None:
    """Keep rows that never change; who has found damaged ones does not, so that they are named each time."""
    memory[name] = (sweep_id, upto), rows


def charges(session: Session, sweep_id: int, damage: Damage) -> tuple[Charged, ...]:
    """Return what workers were charged outside of segments, oldest first."""
    wanted = (
        select(Charge.at, Charge.worker, Charge.kind, Charge.gpu_hours)
        .where(Charge.sweep_id == sweep_id)
        .order_by(Charge.at, Charge.id)
    )
    found = (Charged(*row) for row in damage.rows(session, wanted, "charge", Charge.id))
    return tuple(each for each in found if damage.whole(each, f"a charge of {each.worker}"))


def decisions(session: Session, sweep_id: int, damage: Damage, memory: Memory) -> tuple[Decision, ...]:
    """Return the decisions of a sweep with what they rested on, oldest first; known ones are not read again."""
    upto, known = _remembered(memory, "decisions", sweep_id)
    row = DecisionRow
    wanted = (
        select(row.number, row.at, row.action, Trial.name, row.reason, row.seen, row.alternatives)
        .outerjoin(Trial, Trial.id == row.trial_id)
        .where(row.sweep_id == sweep_id, row.number > upto)
        .order_by(row.number)
    )
    noted = len(damage.found)
    read = (
        Decision(number, at, action, trial, reason, seen, tuple(others) if isinstance(others, list) else others)
        for number, at, action, trial, reason, seen, others in damage.rows(session, wanted, "decision", row.number)
    )
    found = (*known, *(each for each in read if damage.whole(each, f"decision {each.number}")))
    if found and len(damage.found) == noted:
        _remember(memory, "decisions", sweep_id, found[-1].number, found)
    return found


def candidates(session: Session, plan_id: int, damage: Damage) -> dict[tuple[int, int, Any], Priced]:
    """Return the plan's configurations in the order of their rank, by n, B and axes."""
    row = Candidate
    wanted = (
        select(
            row.rollouts_per_prompt,
            row.prompts_per_batch,
            row.axes,
            row.gpu_hours_per_step,
            row.update_steps,
            row.signal_fraction,
            row.pilot_steps,
            row.pilot_reason,
            row.learning_rate,
            row.gpu_hours_per_step_low,
            row.gpu_hours_per_step_high,
        )
        .where(row.plan_id == plan_id)
        .order_by(row.rank)
    )
    found: dict[tuple[int, int, Any], Priced] = {}
    for *cell, low, high in damage.rows(session, wanted, "rank of the plan", row.rank):
        priced = Priced(Cell(*cell), low, high)
        n, B, axes = cell[:3]
        what = f"the plan's n={n}, B={B}"
        if damage.whole(priced.cell, what) and damage.whole(priced, what):
            found[n, B, axes] = priced
    return found


def assumptions(session: Session, plan_id: int, damage: Damage) -> tuple[Assumption, ...]:
    """Return what the plan took for granted."""
    rows = damage.rows(session, select(Plan.assumptions).where(Plan.id == plan_id), "the assumptions of plan", Plan.id)
    stored = rows[0][0] if rows else ()
    known = [each for each in stored if isinstance(each, Mapping)] if isinstance(stored, list) else []
    if isinstance(stored, list) and len(known) < len(stored):
        damage.found.append(f"{len(stored) - len(known)} of the plan's assumptions are left out: they say nothing")
    return tuple(Assumption(*(str(each.get(name, "")) for name in ("what", "value", "source"))) for each in known)
