"""The story of a sweep at one moment, and what is believed on its ground; a fixed number of queries reads it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from planner.belief.forecasts import Band
from planner.store import Store
from planner.store.read_model import Memory
from planner.store.schema import Candidate, Charge, Plan, Segment, Sweep, Trial
from planner.store.schema import Decision as Row
from planner.store.sweeps import sweep_named
from planner.view import Configuration
from rlplan.reading.decisions import Decision, decisions_of
from rlplan.reading.finals import FinalStanding, final_standing
from rlplan.reading.health import Charged, Flag, Priced, flags
from rlplan.reading.recommendation import Recommended
from rlplan.reading.sweep_picture import Picture, SegmentRow
from rlplan.reading.sweep_rows import read_picture, segments_of
from rlplan.wording.assumptions import Assumption
from rlplan.wording.command_lines import DEFAULT_DATABASE, typed_here


@dataclass(frozen=True, slots=True)
class Story:
    """A sweep as its rows tell it; everything is read in one transaction."""

    picture: Picture
    segments: tuple[SegmentRow, ...] = field(repr=False)  # in the order of their start
    charges: tuple[Charged, ...] = field(repr=False)
    decisions: tuple[Decision, ...] = field(repr=False)  # oldest first
    planned: tuple[Configuration, ...] = field(repr=False)  # what the plan has, with or without a trial
    assumptions: tuple[Assumption, ...] = field(repr=False)
    flags: tuple[Flag, ...] = field(repr=False)
    created_at: datetime
    read_at: datetime
    budget_gpu_hours: float
    final_gpu_hours: float
    target_gpu_hours: float
    final: FinalStanding | None = None  # its newest final run
    database: str = DEFAULT_DATABASE  # as it is typed here


@dataclass(frozen=True, slots=True)
class Beliefs:
    """What all curves together let one believe: seconds of work for a large sweep, so who shows it keeps it."""

    recommended: Recommended | None
    why_not: str | None  # why there is no recommendation
    bands: Mapping[int, Band] = field(repr=False)  # by trial
    cuts: Mapping[int, float] = field(repr=False)  # GPU-hours from which on scores count as collapsed, by trial


def story(
    store: Store, sweep: str | None = None, *, now: datetime | None = None, memory: Memory | None = None
) -> Story:
    """Return the story of a sweep, by default the newest; NotFoundError when there is none of that name.

    Who asks again and again about one sweep keeps a `memory`, an empty dict at first: what it holds is not read again.
    """
    with store.read() as session:
        memory = {} if memory is None else memory
        return read_story(session, sweep_named(session, sweep), now or datetime.now(UTC), memory, store.location)


def read_story(session: Session, sweep: Sweep, now: datetime, memory: Memory, location: str) -> Story:
    """Read the story of a sweep of the database at a location, in a transaction that is open already."""
    database = typed_here(location)
    plan = session.execute(
        select(Plan.budget_gpu_hours, Plan.final_gpu_hours, Plan.hardware, Plan.assumptions).where(
            Plan.id == sweep.plan_id
        )
    ).one()
    ran = _segments(session, sweep.id, memory)
    charges = select(Charge.at, Charge.worker, Charge.kind, Charge.gpu_hours).where(Charge.sweep_id == sweep.id)
    charged = tuple(Charged(*row) for row in session.execute(charges.order_by(Charge.at, Charge.id)))
    picture = read_picture(session, sweep, now, memory)
    planned = _planned(session, sweep.plan_id)
    stored = ((str(row.get(name, "")) for name in ("what", "value", "source")) for row in plan.assumptions or ())
    target = float(sweep.config.get("target_gpu_hours") or plan.final_gpu_hours)
    final = target if picture.answer is None else picture.answer.target_gpu_hours
    counted: Any = sweep.config.get("resources", {}).get("slots") or plan.hardware.get("gpus_per_trial")
    return Story(
        picture=picture,
        segments=ran,
        charges=charged,
        decisions=_decisions(session, sweep.id, memory),
        planned=tuple(planned),
        assumptions=tuple(Assumption(*texts) for texts in stored),
        flags=flags(picture, ran, charged, planned, final, float(counted or 1), database),
        created_at=sweep.created_at,
        read_at=now,
        budget_gpu_hours=plan.budget_gpu_hours,
        final_gpu_hours=plan.final_gpu_hours,
        target_gpu_hours=target,
        final=final_standing(session, sweep),
        database=database,
    )


def _segments(session: Session, sweep_id: int, memory: Memory) -> tuple[SegmentRow, ...]:
    """Return the segments of a sweep in the order of their start; those that had ended are not read again."""
    upto, remembered = _remembered(memory, "segments", sweep_id)
    found = segments_of(session, Trial.sweep_id == sweep_id, Segment.id > upto)
    ended = list(takewhile(lambda row: row[1].ended_at is not None, found.items()))
    if ended:
        memory["segments"] = (sweep_id, ended[-1][0]), (*remembered, *(segment for _, segment in ended))
    return tuple(sorted((*remembered, *found.values()), key=lambda row: row.started_at))


def _decisions(session: Session, sweep_id: int, memory: Memory) -> tuple[Decision, ...]:
    """Return the decisions of a sweep, which never change: known ones are not read again."""
    upto, remembered = _remembered(memory, "decisions", sweep_id)
    found = (*remembered, *decisions_of(session, sweep_id, Row.number > upto))
    if found:
        memory["decisions"] = (sweep_id, found[-1].number), found
    return found


def _remembered(memory: Memory, name: str, sweep_id: int) -> tuple[int, tuple[Any, ...]]:
    """Return up to which number rows of a sweep are known, and these."""
    mark, rows = memory.get(name, (None, ()))
    return (mark[1], rows) if isinstance(mark, tuple) and mark[0] == sweep_id else (0, ())


def _planned(session: Session, plan_id: int) -> dict[Configuration, Priced]:
    """Return the plan's configurations in the order of their rank, with their prices."""
    row = Candidate
    columns = (row.rollouts_per_prompt, row.prompts_per_batch, row.axes, row.gpu_hours_per_step)
    prices = (row.gpu_hours_per_step_low, row.gpu_hours_per_step_high)
    rows = session.execute(select(*columns, *prices).where(row.plan_id == plan_id).order_by(row.rank))
    return {Configuration(n, B, axes): Priced(*prices) for n, B, axes, *prices in rows}
