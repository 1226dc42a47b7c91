"""What the segments and charges of a sweep add up to: GPU-hours by what they went to, and how far each trial got."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from budgets.hardware import SECONDS_PER_HOUR
from planner.store.schema import Charge, Segment, SegmentOutcome, Trial


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
    wanted = (
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
        wanted
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
