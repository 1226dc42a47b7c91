"""Measured costs by where they came from: runs that were adopted, by their path, and sweeps that ran here, by name."""

import os
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row, Select, delete, func, select
from sqlalchemy.orm import Session

from budgets.errors import InputError, NotFoundError
from planner.store.schema import CostRecord, Point, Sweep, Trial


def sweeps_of(session: Session, trials: Iterable[int | None]) -> dict[int, str]:
    """Return the names of the sweeps that trials belong to."""
    trial_ids = {trial for trial in trials if trial is not None}
    if not trial_ids:
        return {}
    rows = session.execute(select(Trial.id, Sweep.name).join(Sweep, Sweep.id == Trial.sweep_id))
    return {trial: name for trial, name in rows if trial in trial_ids}


def trials_of(sweep: str) -> Select[int]:
    """Select the trials of a sweep."""
    return select(Trial.id).join(Sweep, Sweep.id == Trial.sweep_id).where(Sweep.name == sweep)


def counted_costs(session: Session, gpu: str, model: str, sweep: str | None) -> Sequence[Row[*tuple[Any, ...]]]:
    """Return how many steps were measured of each source and trial, of one sweep or all, on which GPUs."""
    of = (
        CostRecord.source,
        CostRecord.trial_id,
        CostRecord.generator_gpus,
        CostRecord.trainer_gpus,
        CostRecord.colocated,
    )
    steps = func.sum(func.coalesce(func.nullif(CostRecord.steps, 0), 1)).label("steps")
    mine = [CostRecord.gpu == gpu, CostRecord.model == model]
    if sweep is not None:
        mine.append(CostRecord.trial_id.in_(trials_of(sweep)))
    return session.execute(select(*of, steps).where(*mine).group_by(*of).order_by(func.min(CostRecord.id))).all()


def base_scores(session: Session, model: str, sweep: str | None) -> dict[str, float]:
    """Return what the adopted runs of a model, of one sweep or all, scored before training, by their paths."""
    query = (
        select(CostRecord.source, Point.score)
        .join(Point, Point.trial_id == CostRecord.trial_id)
        .where(CostRecord.model == model, CostRecord.source.is_not(None))
        .where(Point.optimizer_step == 0, Point.score.is_not(None))
        .order_by(CostRecord.id)
    )
    if sweep is not None:
        query = query.where(CostRecord.trial_id.in_(trials_of(sweep)))
    return {str(source): score or 0.0 for source, score in session.execute(query.distinct())}


def sources(session: Session) -> dict[str, int]:
    """Return what measured costs came from, each with its number of records, the oldest first."""
    counts: dict[str, int] = {}
    adopted = (
        select(CostRecord.source, func.count())
        .where(CostRecord.source.is_not(None))
        .group_by(CostRecord.source)
        .order_by(func.min(CostRecord.id))
    )
    of_sweeps = (
        select(Sweep.name, func.count())
        .join(Trial, Trial.sweep_id == Sweep.id)
        .join(CostRecord, CostRecord.trial_id == Trial.id)
        .where(CostRecord.source.is_(None))
        .group_by(Sweep.id, Sweep.name)
        .order_by(Sweep.id)
    )
    for query in (adopted, of_sweeps):
        for name, records in session.execute(query):
            counts[str(name)] = int(records)
    return counts


def forget_costs(session: Session, run: str) -> tuple[str, int]:
    """Remove the measured costs of a run or a sweep, by path or name; return what it was stored as, and how many."""
    runs = sources(session)
    name = _source_named(run, list(runs))
    mine = (CostRecord.source == name) | (CostRecord.source.is_(None) & CostRecord.trial_id.in_(trials_of(name)))
    session.execute(delete(CostRecord).where(mine))
    return name, runs[name]


def replace_costs(session: Session, source: str) -> None:
    """Remove what was stored of a run that is adopted once more."""
    session.execute(delete(CostRecord).where(CostRecord.source == source))


def _source_named(run: str, runs: list[str]) -> str:
    """Return which of the sources is meant: its whole name, the same path, or the only one that ends so."""
    for spelling in (run, os.path.abspath(os.path.expanduser(run))):
        if spelling in runs:
            return spelling
    alike = [name for name in runs if os.path.basename(name) == os.path.basename(run.rstrip("/")) != ""]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise InputError(f"'{run}' may be {' or '.join(alike)}: give the whole path")
    if not runs:
        raise NotFoundError(f"nothing was measured of '{run}', or of any other run: rlplan adopt RUN stores it")
    some = runs if len(runs) <= 6 else [*runs[:6], f"{len(runs) - 6} more"]
    raise NotFoundError(f"nothing was measured of '{run}'; measured are {', '.join(some)}")
