"""Read a sweep as it stands: its rows, and which points of a trial count, by one rule for drivers and screens.

A point counts where the trial's present attempt made it, or where that attempt began behind it; of a step that several
attempts have reached the newest one's counts. What a lost attempt did beyond its last checkpoint is void. What is
decided and recommended rests only on what is committed: a segment under way may be lost yet.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeVar, cast

from sqlalchemy import JSON, ColumnElement, Row, Table, bindparam, func, null, select, type_coerce
from sqlalchemy.orm import Session, selectinload

from budgets.work import Phase
from planner.metrics import Metric
from planner.store.finals import final_of, plan_of_final
from planner.store.schema import Charge, Decision, Plan, Point, Segment, SegmentOutcome, Sweep, Trial
from planner.store.sweeps import Totals, sweep_named, totals_of
from planner.view import ScorePoint

_AT_ONCE = 1000  # points that are read together
AtStep = TypeVar("AtStep", Point, Row[*tuple[Any, ...]])
Reached = tuple[tuple[int, ...], ...]
# What was read before, each with the mark that tells whether there is more: scores by trial, other rows by their name.
Memory = dict[int | str, tuple[object, tuple[Any, ...]]]


class Attempt(NamedTuple):
    """The present attempt of a trial, and the step where it began or will begin."""

    number: int
    from_step: int

    def counts(self, attempt: int, step: int) -> bool:
        """Say whether what an attempt measured at a step counts, unless a newer one measured there too."""
        return attempt == self.number or step <= self.from_step


class Trained(NamedTuple):
    """How far a trial's points go, and what its own training took: at its first point, and at its last."""

    first_gpu_hours: float
    last_step: int
    last_gpu_hours: float


def present_attempts(trials: Iterable[Trial | Row[*tuple[Any, ...]]], totals: Totals) -> dict[int, Attempt]:
    """Return the present attempt of each trial."""
    began, goes_on_from = totals.first_step, totals.committed_step
    return {
        trial.id: Attempt(trial.attempt, began.get((trial.id, trial.attempt), goes_on_from.get(trial.id, 0)))
        for trial in trials
    }


def counting(present: Attempt, step: int, points: Sequence[AtStep]) -> AtStep | None:
    """Return of one step's points, the oldest first, the one that counts; no score is hidden by a point without one."""
    there = [point for point in points if present.counts(point.attempt, step)]
    return next(
        (there_point for there_point in reversed(there) if there_point.score is not None), there[-1] if there else None
    )


def points_of(session: Session, trial_id: int) -> list[Point]:
    """Return every step of a trial as the point that counts has it, also of a segment under way."""
    trial = session.get_one(Trial, trial_id)
    present = present_attempts([trial], totals_of(session, trial.sweep_id))[trial.id]
    query = select(Point).where(Point.trial_id == trial_id).order_by(Point.optimizer_step, Point.attempt)
    by_step = groupby(session.scalars(query), key=attrgetter("optimizer_step"))
    counted = (counting(present, step, list(points)) for step, points in by_step)
    return [point for point in counted if point is not None]


def committed_curves(
    session: Session, attempts: Mapping[int, Attempt], committed: Mapping[int, int], metric: Metric
) -> tuple[dict[int, list[ScorePoint]], dict[int, Trained]]:
    """Return, by trial, the scores up to what is committed, and what the training up to there took."""
    scores: dict[int, list[ScorePoint]] = {trial: [] for trial in attempts}
    trained: dict[int, Trained] = {}
    for trial, points in _counted(session, attempts, metric, scored=False):
        saved = [point for point in points if point[0] <= committed.get(trial, 0)]
        if saved:
            took = {step: gpu_hours for step, gpu_hours, *_ in saved}
            last = max(took)
            trained[trial] = Trained(took[min(took)], last, took[last])
            scores[trial] = _scores(saved, metric)
    return scores, trained


def reached(session: Session, sweep_id: int) -> dict[int, Reached]:
    """Return, by trial, how far each attempt has reported: attempt, last step, number of points."""
    query = (
        select(Point.trial_id, Point.attempt, func.max(Point.optimizer_step), func.count())
        .where(Point.trial_id.in_(select(Trial.id).where(Trial.sweep_id == sweep_id)))
        .group_by(Point.trial_id, Point.attempt)
        .order_by(Point.trial_id, Point.attempt)
    )
    by_trial: dict[int, Reached] = {}
    for trial, *attempt in session.execute(query):
        by_trial[trial] = (*by_trial.get(trial, ()), tuple(attempt))
    return by_trial


def remember_scores(
    session: Session, attempts: Mapping[int, Attempt], by_trial: Mapping[int, Reached], memory: Memory, metric: Metric
) -> None:
    """Bring the memory up to date: each trial's scores by step, also of a segment under way.

    Points are never changed, so a trial whose attempts have reached what they had reached before is not read again.
    """
    marks = {trial: (*attempts[trial], progress) for trial, progress in by_trial.items() if trial in attempts}
    changed = {trial: attempts[trial] for trial, mark in marks.items() if memory.get(trial, (None,))[0] != mark}
    memory |= {trial: (marks[trial], ()) for trial in changed}
    for trial, counted in _counted(session, changed, metric, scored=True):
        memory[trial] = (marks[trial], tuple(_scores(counted, metric)))


def _counted(
    session: Session, attempts: Mapping[int, Attempt], metric: Metric, *, scored: bool
) -> Iterator[tuple[int, list[Any]]]:
    """Yield the points that count of each trial, by step: GPU-hours, compared ones, a validation's, what was scored.

    Of a step there may be several, the newest last.
    """
    point = cast(Table, Point.__table__).c  # not the mapped class: many rows come twice as fast without it
    took = type_coerce(point.metrics, JSON)["seconds"][Phase.EVALUATE.value].as_float()
    query = (
        select(
            point.trial_id,
            point.attempt,
            point.optimizer_step,
            point.gpu_hours,
            (compared := func.coalesce(point.compared_gpu_hours, point.gpu_hours)),
            null() if scored else compared * took / func.nullif(point.seconds, 0.0),
            point.score,
            point.score_standard_error,
            null() if metric.kind == "mean" else point.further_scores,
        )
        .where(point.trial_id.in_(list(attempts)))
        .order_by(point.trial_id, point.optimizer_step, point.attempt)
    )
    if scored:
        query = query.where(point.score.is_not(None))
    result = session.connection().execute(query) if attempts else ()
    for trial, rows in groupby(result, key=itemgetter(0)):
        counts = attempts[trial].counts
        yield trial, [(step, *stored) for _, attempt, step, *stored in rows if counts(attempt, step)]


def _scores(points: Iterable[Any], metric: Metric) -> list[ScorePoint]:
    by_step = {
        step: ScorePoint(step, compared, *measured, validation or 0.0)
        for step, _, compared, validation, *stored in points
        if (measured := metric.of(*stored)) is not None
    }
    return list(by_step.values())


def every_point(session: Session, sweep_id: int) -> Iterator[tuple[dict[str, Any], Row[*tuple[Any, ...]]]]:
    """Yield every point, behind what is known of its trial, by trial, step and attempt; also of attempts given up.

    A sweep may have millions: they are read a few at a time, one trial after the other, in the order of their key.
    """
    of_trial = (Trial.name.label("trial"), Trial.rollouts_per_prompt, Trial.prompts_per_batch, Trial.seed, Trial.axes)
    trials = session.execute(select(Trial.id, *of_trial).where(Trial.sweep_id == sweep_id).order_by(Trial.id)).all()
    point = cast(Table, Point.__table__).c
    columns: list[ColumnElement[Any]] = [
        point.attempt,
        point.optimizer_step.label("step"),
        point.rollouts,
        point.tokens,
        point.seconds,
        point.gpu_hours,
        func.coalesce(point.compared_gpu_hours, point.gpu_hours).label("compared_gpu_hours"),
        point.score,
        point.score_standard_error,
    ]
    query = (
        select(*columns, point.further_scores, point.metrics)
        .where(point.trial_id == bindparam("trial_id"))
        .order_by(point.optimizer_step, point.attempt)
    )
    connection = session.connection()
    for number, *values in trials:
        trial = dict(zip((column.key for column in of_trial), values, strict=True))
        for row in connection.execute(query, {"trial_id": number}, execution_options={"yield_per": _AT_ONCE}):
            yield trial, row


RETRY = "retry"  # the decision that a failed trial is tried again; it holds how many of its failures count


@dataclass(frozen=True, slots=True)
class SweepSnapshot:
    """The rows of one sweep: its trials in the order of their planning, and what each has."""

    sweep: Sweep
    plan: Plan
    trials: list[Trial]
    segments: Mapping[int, list[Segment]]  # by trial, oldest first
    scores: Mapping[int, list[ScorePoint]]  # by trial and then by step, as far as they are committed
    trained: Mapping[int, Trained]  # by trial that has a committed point
    charged_to_workers: Mapping[str, float]  # GPU-hours, in segments and beside them
    totals: Totals
    failures: Mapping[int, int]  # by trial: those that count against its retries, as its last driver had them

    @property
    def spent_gpu_hours(self) -> float:
        """GPU-hours that are gone, whatever for."""
        return self.totals.spent

    def committed_step(self, trial: int) -> int:
        """Return the step up to which a trial is saved."""
        return self.totals.committed_step.get(trial, 0)


def sweep_snapshot(session: Session, sweep: str) -> SweepSnapshot:
    """Return how a sweep stands; a final run's plan is that run alone."""
    row = sweep_named(session, sweep)
    plan = session.scalars(select(Plan).where(Plan.id == row.plan_id).options(selectinload(Plan.candidates))).one()
    trials = list(session.scalars(select(Trial).where(Trial.sweep_id == row.id).order_by(Trial.id)))
    if (final := final_of(session, row.id)) is not None:
        plan = plan_of_final(plan, final, trials[0])
    of_sweep = select(Trial.id).where(Trial.sweep_id == row.id).scalar_subquery()
    segments: dict[int, list[Segment]] = defaultdict(list)
    charged: dict[str, float] = defaultdict(float)
    for segment in session.scalars(select(Segment).where(Segment.trial_id.in_(of_sweep)).order_by(Segment.id)):
        segments[segment.trial_id].append(segment)
        if segment.worker is not None:
            charged[segment.worker] += segment.charged_gpu_hours or 0.0
    for worker, gpu_hours in session.execute(
        select(Charge.worker, func.sum(Charge.gpu_hours)).where(Charge.sweep_id == row.id).group_by(Charge.worker)
    ):
        charged[worker] += gpu_hours
    totals, metric = totals_of(session, row.id), Metric.of_sweep(row.config)
    scores, trained = committed_curves(session, present_attempts(trials, totals), totals.committed_step, metric)
    failures = _failures(session, row.id, segments)
    return SweepSnapshot(row, plan, trials, segments, scores, trained, charged, totals, failures)


def _failures(session: Session, sweep_id: int, segments: Mapping[int, list[Segment]]) -> dict[int, int]:
    """Read the last retry of each trial since its last committed segment: an interrupted driver is no failure."""
    query = select(Decision).where(Decision.sweep_id == sweep_id, Decision.action == RETRY).order_by(Decision.number)
    last = {decision.trial_id: decision for decision in session.scalars(query) if decision.trial_id is not None}
    failures = {}
    for trial, retry in last.items():
        committed = [segment for segment in segments.get(trial, []) if segment.outcome is SegmentOutcome.COMMITTED]
        if not any(segment.ended_at is not None and segment.ended_at >= retry.at for segment in committed):
            failures[trial] = int(retry.seen.get("failures", 0))
    return failures


def failures_since_success(segments: list[Segment]) -> int:
    """Count the segments that failed or were lost since the last one that was committed."""
    count = 0
    for segment in reversed(segments):
        if segment.outcome is SegmentOutcome.COMMITTED:
            break
        count += segment.outcome in (SegmentOutcome.FAILED, SegmentOutcome.LOST)
    return count
