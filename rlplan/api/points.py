"""Every point that a sweep's trials reported, also those of attempts that were given up."""

from typing import Any

from sqlalchemy import select

from planner.layering import flattened
from planner.store import Store
from planner.store.schema import Point, Sweep, Trial
from rlplan.api.columns import POINTS
from rlplan.api.frames import Columns, Kind


def point_rows(store: Store, sweep: str) -> tuple[Columns, list[dict[str, Any]]]:
    """Return the points by trial, step and attempt, and their columns: one `metric_…` for each number of training."""
    wanted = (
        select(
            Trial.name.label("trial"),
            Point.attempt,
            Point.optimizer_step.label("step"),
            Point.rollouts,
            Point.tokens,
            Point.seconds,
            Point.gpu_hours,
            Point.score,
            Point.score_standard_error,
            Point.metrics,
        )
        .join(Trial, Trial.id == Point.trial_id)
        .join(Sweep, Sweep.id == Trial.sweep_id)
        .where(Sweep.name == sweep)
        .order_by(Point.trial_id, Point.optimizer_step, Point.attempt)
    )
    with store.read() as session:
        rows = [row._asdict() for row in session.execute(wanted)]
    measured = [_numbers(row.pop("metrics") or {}) for row in rows]
    names = dict.fromkeys(name for each in measured for name in each)
    columns = {**POINTS, **dict.fromkeys(names, Kind.NUMBER)}
    return columns, [{**dict.fromkeys(names), **row, **own} for row, own in zip(rows, measured, strict=True)]


def _numbers(metrics: dict[str, Any]) -> dict[str, float]:
    """Flatten metrics to their numbers, `{"seconds": {"train": 2}}` to `metric_seconds_train`."""
    return {
        f"metric_{name.replace('.', '_')}": float(value)
        for name, value in flattened(metrics)
        if isinstance(value, int | float)
    }
