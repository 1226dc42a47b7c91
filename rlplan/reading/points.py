"""What the trials of a sweep have measured: the scores that count, and every point of every attempt."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, cast

from sqlalchemy import Table, func, null, select
from sqlalchemy.orm import Session

from planner.metrics import Metric
from planner.store.schema import Point, Trial

Reached = tuple[tuple[int, ...], ...]
# What was read before, each with the mark that tells whether there is more: scores by trial, other rows by their name.
Memory = dict[int | str, tuple[object, tuple[Any, ...]]]


class Score(NamedTuple):
    """One validation of a trial; a picture may hold tens of thousands, and a tuple is made fastest."""

    step: int
    gpu_hours: float  # on the final run's GPUs, where curves are compared
    score: float
    standard_error: float | None


def reached(session: Session, sweep_id: int) -> dict[int, Reached]:
    """Return, by trial, how far each attempt has reported: attempt, last step, number of points."""
    wanted = (
        select(Point.trial_id, Point.attempt, func.max(Point.optimizer_step), func.count())
        .where(Point.trial_id.in_(select(Trial.id).where(Trial.sweep_id == sweep_id)))
        .group_by(Point.trial_id, Point.attempt)
        .order_by(Point.trial_id, Point.attempt)
    )
    found: dict[int, Reached] = {}
    for trial, *attempt in session.execute(wanted):
        found[trial] = (*found.get(trial, ()), tuple(attempt))
    return found


def remember_scores(
    session: Session,
    attempts: Mapping[int, tuple[int, int]],
    known: Mapping[int, Reached],
    memory: Memory,
    metric: Metric,
) -> None:
    """Bring the memory up to date: each trial's scores by step, of every step the newest attempt's.

    `attempts` has the present attempt of each trial and the step where it began; what attempts before it did beyond
    that step is void. Points are never changed, so a trial whose attempts have reached what they had reached before is
    not read again.
    """
    marks = {trial: (*attempts[trial], seen) for trial, seen in known.items() if trial in attempts}
    changed = [trial for trial, mark in marks.items() if memory.get(trial, (None,))[0] != mark]
    point = cast(Table, Point.__table__).c  # not the mapped class: many rows come twice as fast without it
    wanted = (
        select(
            point.trial_id,
            point.attempt,
            point.optimizer_step,
            func.coalesce(point.compared_gpu_hours, point.gpu_hours),
            point.score,
            point.score_standard_error,
            null() if metric.kind == "mean" else point.further_scores,
        )
        .where(point.trial_id.in_(changed), point.score.is_not(None))
        .order_by(point.trial_id, point.optimizer_step, point.attempt)
    )
    memory |= {trial: (marks[trial], ()) for trial in changed}
    found = session.connection().execute(wanted) if changed else ()
    for trial, rows in groupby(found, key=itemgetter(0)):
        newest, start = attempts[trial]
        by_step = {
            step: Score(step, gpu_hours, *measured)
            for _, attempt, step, gpu_hours, *stored in rows
            if (attempt == newest or step <= start) and (measured := metric.of(*stored)) is not None
        }
        memory[trial] = (marks[trial], tuple(by_step.values()))


def every_point(session: Session, sweep_id: int) -> Iterator[dict[str, Any]]:
    """Yield every point by trial, step and attempt, also those of attempts that were given up."""
    wanted = (
        select(
            Trial.name.label("trial"),
            Trial.rollouts_per_prompt,
            Trial.prompts_per_batch,
            Trial.seed,
            Trial.axes,
            Point.attempt,
            Point.optimizer_step.label("step"),
            Point.rollouts,
            Point.tokens,
            Point.seconds,
            Point.gpu_hours,
            func.coalesce(Point.compared_gpu_hours, Point.gpu_hours).label("compared_gpu_hours"),
            Point.score,
            Point.score_standard_error,
            Point.further_scores,
            Point.metrics,
        )
        .join(Trial, Trial.id == Point.trial_id)
        .where(Trial.sweep_id == sweep_id)
        .order_by(Trial.id, Point.optimizer_step, Point.attempt)
    )
    return (row._asdict() for row in session.execute(wanted))
