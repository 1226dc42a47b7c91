"""Reads a sweep's picture: a fixed number of queries, whatever the number of trials."""

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from budgets.hardware import SECONDS_PER_HOUR
from planner.metrics import Metric
from planner.store import Store
from planner.store.control import in_force, unended
from planner.store.read_model import Memory, present_attempts, reached, remember_scores
from planner.store.results import RankedRow
from planner.store.schema import Candidate, Fit, Plan, Ranking, Recommendation, Segment, Sweep, Trial
from planner.store.sweeps import Totals, sweep_named, totals_of
from rlplan.reading.decisions import decisions_of
from rlplan.reading.sweep_picture import (
    Driver,
    Forecast,
    Hold,
    Money,
    Picture,
    SegmentRow,
    StoredAnswer,
    TrialRow,
)
from runner.processes import has_driver
from runner.sweep.plan_rows import workload_name

LAST_DECISIONS = 8
ANSWER_LEVEL = 0.90  # of the intervals of an answer
MASKED = "***"  # for the values of a trainer's variables, which may be tokens
WORKED_OUT = ("step", "pilot_steps", "scores", "forecast")  # of a trial, which is no column of its row


def picture(store: Store, sweep: str | None = None, *, now: datetime | None = None) -> Picture:
    """Return how a sweep, by default the newest, stands; NotFoundError when there is none of that name."""
    with store.read() as session:
        return read_picture(session, sweep_named(session, sweep), now or datetime.now(UTC))


def read_picture(session: Session, sweep: Sweep, now: datetime, memory: Memory | None = None) -> Picture:
    """Read the picture of a sweep in a transaction that is open already.

    Who reads again and again of one sweep keeps a `memory`, an empty dict at first: what it holds is not read again.
    """
    plan = session.execute(
        select(Plan.name, Plan.pilot_gpu_hours, Plan.workload, Plan.hardware).where(Plan.id == sweep.plan_id)
    ).one()
    driven = has_driver(sweep, now)
    totals, metric = totals_of(session, sweep.id), Metric.of_sweep(sweep.config)
    gpus = float(plan.hardware.get("pilot_gpus") or plan.hardware.get("gpus_per_trial") or 1)
    money = _money(sweep, plan.pilot_gpu_hours, totals, totals.used(gpus, now) if driven else 0.0)
    answer = stored_answer(session, sweep.id)
    trials, changed_at = trial_rows(session, sweep.id, totals, {} if memory is None else memory, metric)
    trials = with_forecasts(trials, answer)
    decided = decisions_of(session, sweep.id, newest=LAST_DECISIONS)
    row = in_force(session.scalars(unended(sweep.id)).all())
    hold = None if row is None else Hold(row.kind, row.by, row.at, row.taken_at)
    # Its end, or its last sign of life; now while it is driven.
    end = sweep.finished_at or (now if driven else None) or sweep.heartbeat_at or changed_at or sweep.created_at
    return Picture(
        sweep=sweep.name,
        plan=plan.name,
        policy=sweep.policy,
        metric=metric.name,
        workload=workload_name(sweep.config, plan.workload),
        seed=sweep.seed,
        status=sweep.status,
        driver=_driver(sweep, now, driven),
        money=money,
        trials=trials,
        decisions=decided[-1].number if decided else 0,
        last_decisions=decided,
        elapsed_seconds=max(0.0, (end - sweep.created_at).total_seconds()),
        seconds_left=_seconds_left(money, gpus * len(totals.running)) if driven and hold is None else None,
        answer=answer,
        config=without_variables(sweep.config),
        hold=hold,
    )


def without_variables(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the values of every `environment` in them masked."""
    plain_settings = dict(settings)
    for key, value in settings.items():
        if isinstance(value, Mapping):
            plain_settings[key] = dict.fromkeys(value, MASKED) if key == "environment" else without_variables(value)
    return plain_settings


def _money(sweep: Sweep, planned: float, totals: Totals, used: float) -> Money:
    return Money(
        pilot_gpu_hours=float(sweep.config.get("pilot_gpu_hours", planned)),
        by_outcome=totals.by_outcome,
        start_ups=totals.start_ups,
        start_up_gpu_hours=totals.start_up_gpu_hours,
        by_charge=totals.by_charge,
        reserved_gpu_hours=totals.reserved,
        used_of_reserved_gpu_hours=used,
    )


def stored_answer(session: Session, sweep_id: int) -> StoredAnswer | None:
    """Return what a sweep has stored last as its answer: this is what every face of it says."""
    newest = (
        select(Recommendation).where(Recommendation.sweep_id == sweep_id).order_by(Recommendation.id.desc()).limit(1)
    )
    row = session.scalar(newest)
    if row is None:
        return None
    query = select(Ranking).where(Ranking.recommendation_id == row.id).order_by(Ranking.rank)
    return StoredAnswer(
        ranking=tuple(RankedRow(**_fields(stored, RankedRow)) for stored in session.scalars(query)),
        **_fields(row, StoredAnswer, without="ranking"),
    )


def _fields(row: object, kind: type[StoredAnswer] | type[RankedRow], without: str = "") -> dict[str, Any]:
    return {field.name: getattr(row, field.name) for field in fields(kind) if field.name != without}


def _driver(sweep: Sweep, now: datetime, alive: bool) -> Driver | None:
    if sweep.driver_host is None or sweep.driver_pid is None or sweep.heartbeat_at is None:
        return None
    silent = max(0.0, (now - sweep.heartbeat_at).total_seconds())
    return Driver(sweep.driver_host, sweep.driver_pid, silent, alive)


def _seconds_left(money: Money, gpus: float) -> float | None:
    """Return how long what is left lasts at the present pace, on the GPUs that run now; None where none does."""
    if not gpus:
        return None
    return max(0.0, money.pilot_gpu_hours - money.spent - money.used_of_reserved_gpu_hours) / gpus * SECONDS_PER_HOUR


def trial_rows(
    session: Session, sweep_id: int, totals: Totals, memory: Memory, metric: Metric
) -> tuple[tuple[TrialRow, ...], datetime | None]:
    """Return the trials in the order of their planning, and when the last of them changed."""
    columns = [getattr(Trial, field.name) for field in fields(TrialRow) if field.name not in WORKED_OUT]
    query = (
        select(*columns, Candidate.pilot_steps, Trial.updated_at)
        .outerjoin(Candidate, Candidate.id == Trial.candidate_id)
        .where(Trial.sweep_id == sweep_id)
        .order_by(Trial.id)
    )
    rows = session.execute(query).all()
    present, points = present_attempts(rows, totals), reached(session, sweep_id)
    remember_scores(session, present, points, memory, metric)
    forecasts = _forecasts(session, sweep_id)
    # What the present attempt began behind, or has reported since.
    farthest = {
        number: max([attempt.from_step, *(last for run, last, _ in points.get(number, ()) if run == attempt.number)])
        for number, attempt in present.items()
    }
    trials = tuple(
        TrialRow(
            **{column.key: getattr(row, column.key) for column in columns},
            pilot_steps=row.pilot_steps,
            step=farthest[row.id],
            scores=memory[row.id][1] if row.id in memory else (),
            forecast=forecasts.get(row.id),
        )
        for row in rows
    )
    return trials, max((row.updated_at for row in rows), default=None)


def segments_of(session: Session, *where: ColumnElement[bool]) -> dict[int, SegmentRow]:
    """Return the segments of which so much holds by their ids, in the order of these."""
    columns = [getattr(Segment, field.name) for field in fields(SegmentRow)[2:]]
    query = select(Segment.id, Segment.trial_id, Trial.name, *columns).join(Trial, Trial.id == Segment.trial_id)
    return {number: SegmentRow(*row) for number, *row in session.execute(query.where(*where).order_by(Segment.id))}


def _forecasts(session: Session, sweep_id: int) -> dict[int, Forecast]:
    newest = (
        select(func.max(Fit.id))
        .where(Fit.trial_id.in_(select(Trial.id).where(Trial.sweep_id == sweep_id)))
        .group_by(Fit.trial_id)
    )
    interval = (Fit.predicted_mean, Fit.predicted_low, Fit.predicted_high, Fit.level)
    columns = (*interval, Fit.verdict, Fit.target_gpu_hours, Fit.probability_best, Fit.made_at)
    rows = session.execute(select(Fit.trial_id, *columns).where(Fit.id.in_(newest)))
    return {row[0]: Forecast(*row[1:]) for row in rows}


def with_forecasts(trials: tuple[TrialRow, ...], answer: StoredAnswer | None) -> tuple[TrialRow, ...]:
    """Return trials that have a curve with what the answer says of their configurations: one figure for all faces."""
    if answer is None:
        return trials
    ranked = {(row.rollouts_per_prompt, row.prompts_per_batch, row.axes): row for row in answer.ranking}

    def revise(trial: TrialRow) -> TrialRow:
        row = ranked.get((trial.rollouts_per_prompt, trial.prompts_per_batch, trial.axes))
        if trial.forecast is None or row is None:
            return trial
        if row.expected_score is None or row.score_low is None or row.score_high is None:
            return replace(trial, forecast=None)
        figures = (row.expected_score, row.score_low, row.score_high, ANSWER_LEVEL, trial.forecast.verdict)
        return replace(
            trial, forecast=Forecast(*figures, answer.target_gpu_hours, row.probability_best, answer.made_at)
        )

    return tuple(map(revise, trials))
