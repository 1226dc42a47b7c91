"""The results database as the rest of rlplan sees it: one object, one transaction per call."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from sqlalchemy.orm import Session

from budgets.errors import StoreError
from planner.store import results, sweeps
from planner.store.engine import Engines
from planner.store.failures import explained
from planner.store.records import (
    NewCandidate,
    NewCostRecord,
    NewDecision,
    NewFit,
    NewPlan,
    NewPoint,
    NewRecommendation,
    NewSegment,
    NewSweep,
    NewTrial,
    RankedRow,
)
from planner.store.schema import CostRecord, Plan, Point, SegmentOutcome
from planner.trials import TrialState


class Store:
    """An open results database; made by `open_store`, closed by `close` or at the end of a `with` block."""

    def __init__(self, engines: Engines, *, read_only: bool, notices: list[str]) -> None:
        self._engines = engines
        self.read_only = read_only
        self.notices = notices

    @property
    def location(self) -> str:
        """The database's path or URL as messages show it, without a password."""
        return self._engines.shown

    def close(self) -> None:
        """Close all connections, after what was written has reached the database's one file."""
        if not self.read_only:
            self._engines.fold()
        self._engines.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Lend a session that sees one moment of the database and cannot change it."""
        with explained(self.location, self._engines.reader), Session(self._engines.reader) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Lend a session that holds the database's one write lock; it commits at the end, or undoes all on an error.

        The methods below that store something take the same lock themselves: called inside the block they wait in vain.
        """
        if self.read_only:
            raise StoreError(f"{self.location} was opened for reading only; open it for writing to store something")
        with (
            explained(self.location, self._engines.reader),
            Session(self._engines.writer, expire_on_commit=False) as session,
            session.begin(),
        ):
            session.connection()  # takes the lock now, so that what is read below stays true
            yield session

    def save_plan(self, plan: NewPlan, candidates: Sequence[NewCandidate], *, created_at: datetime) -> str:
        """Store a plan with its candidates and return the name it got, such as 'plan-1'."""
        with self.write() as session:
            return sweeps.save_plan(session, plan, candidates, created_at)

    def plan(self, name: str | None = None) -> Plan:
        """Return the plan of that name, or the newest, with its candidates in rank order."""
        with self.read() as session:
            return sweeps.plan_named(session, name)

    def create_sweep(self, plan: str | None, sweep: NewSweep, *, created_at: datetime) -> str:
        """Store a sweep of a plan, None for the newest, and return the name it got, such as 'sweep-1'."""
        with self.write() as session:
            return sweeps.create_sweep(session, plan, sweep, created_at)

    def add_trial(self, sweep: str, trial: NewTrial, *, at: datetime) -> int:
        """Plan a trial and return its id; one that the sweep already has is found, not doubled."""
        with self.write() as session:
            return sweeps.add_trial(session, sweep, trial, at)

    def move_trial(
        self,
        trial_id: int,
        to_state: TrialState,
        *,
        at: datetime,
        reason: str,
        failure_class: str | None = None,
        failure_tail: str | None = None,
    ) -> None:
        """Move a trial to another state; an illegal move raises IllegalTransitionError and stores nothing.

        Leaving failed or lost begins a new attempt. What failed is kept until the next move.
        """
        with self.write() as session:
            sweeps.move_trial(session, trial_id, to_state, at, reason, failure_class, failure_tail)

    def open_segment(self, trial_id: int, segment: NewSegment, *, started_at: datetime) -> int:
        """Store a segment with the GPU-hours reserved for it, and return its id."""
        with self.write() as session:
            return results.open_segment(session, trial_id, segment, started_at)

    def settle_segment(
        self,
        segment_id: int,
        outcome: SegmentOutcome,
        charged_gpu_hours: float,
        *,
        ended_at: datetime,
        checkpoint_path: str | None = None,
    ) -> None:
        """End a segment and charge its trial; the same report again does nothing, another one is refused."""
        with self.write() as session:
            results.settle_segment(session, segment_id, outcome, charged_gpu_hours, ended_at, checkpoint_path)

    def add_points(self, points: Sequence[NewPoint]) -> int:
        """Store points, all or none, and return how many were new; of a point sent twice the first is kept."""
        with self.write() as session:
            return results.add_points(session, points)

    def points(self, trial_id: int) -> list[Point]:
        """Return a trial's points by step; of a step that several attempts reached, the newest attempt's."""
        with self.read() as session:
            return results.points(session, trial_id)

    def record_fit(self, fit: NewFit) -> int:
        """Store what a trial's curve is believed to be, and return the fit's id."""
        with self.write() as session:
            return results.record_fit(session, fit)

    def record_decision(self, sweep: str, decision: NewDecision) -> int:
        """Store a decision of a sweep, and return its number, counted from 1."""
        with self.write() as session:
            return results.record_decision(session, sweep, decision)

    def save_recommendation(self, sweep: str, recommendation: NewRecommendation, rankings: Sequence[RankedRow]) -> int:
        """Store a recommendation with the whole ranked list it rests on, and return its id."""
        with self.write() as session:
            return results.save_recommendation(session, sweep, recommendation, rankings)

    def add_cost_records(self, records: Sequence[NewCostRecord]) -> None:
        """Store seconds that steps were measured to take."""
        with self.write() as session:
            sweeps.add_cost_records(session, records)

    def cost_records(self, *, gpu: str | None = None, model: str | None = None) -> list[CostRecord]:
        """Return measured costs, oldest first, of one GPU or model or of all."""
        with self.read() as session:
            return sweeps.cost_records(session, gpu, model)

    def ranked_allocations(self, *, sweep: str | None = None, plan: str | None = None) -> list[dict[str, Any]]:
        """Return the rows of the view `ranked_allocations`, of one sweep or plan or of all."""
        with self.read() as session:
            return results.ranked_allocations(session, sweep, plan)
