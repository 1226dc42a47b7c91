"""What the trials of a sweep have measured: the scores that count, and every point of every attempt."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Row, Table, Text, bindparam, func, null, select
from sqlalchemy import cast as sql_cast
from sqlalchemy.orm import Session

from planner.metrics import Metric
from planner.store.schema import Point, Trial

_AT_ONCE = 1000  # points that are read together
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


def every_point(
    session: Session, sweep_id: int, *, as_text: bool = False, measured: bool = True
) -> Iterator[tuple[dict[str, Any], Row[*tuple[Any, ...]]]]:
    """Yield every point, behind what is known of its trial, by trial, step and attempt; also of attempts given up.

    A sweep may have millions: they are read a few at a time, one trial after the other, in the order of their key. Its
    documents, the further scores and the metrics, come as they are stored where they are wanted `as_text`, and alone
    without what was `measured`.
    """
    of_trial = (Trial.name.label("trial"), Trial.rollouts_per_prompt, Trial.prompts_per_batch, Trial.seed, Trial.axes)
    trials = session.execute(select(Trial.id, *of_trial).where(Trial.sweep_id == sweep_id).order_by(Trial.id)).all()
    point = cast(Table, Point.__table__).c
    documents: list[ColumnElement[Any]] = [point.further_scores, point.metrics]
    if as_text:
        documents = [sql_cast(each, Text) for each in documents]
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
    wanted = (
        select(*(columns if measured else ()), *documents)
        .where(point.trial_id == bindparam("trial_id"))
        .order_by(point.optimizer_step, point.attempt)
    )
    connection = session.connection()
    for number, *values in trials:
        trial = dict(zip((each.key for each in of_trial), values, strict=True))
        for row in connection.execute(wanted, {"trial_id": number}, execution_options={"yield_per": _AT_ONCE}):
            yield trial, row
