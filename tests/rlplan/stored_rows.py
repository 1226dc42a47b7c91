"""What a database holds, read anew."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import inspect

from planner.store import open_store
from planner.store.control import Driver, take_lease
from planner.store.read_model import sweep_snapshot
from planner.store.schema import Sweep


def rows(database: str | Path, kind: type) -> list[Any]:
    """Return all rows of a table, by their keys: as they were stored, and points by trial, attempt and step."""
    with open_store(database, read_only=True) as store, store.read() as session:
        return list(session.query(kind).order_by(*inspect(kind).primary_key))


def spent_of(database: str) -> float:
    """Return the GPU-hours of all sweeps, seen to be within the budget of their plan."""
    with open_store(database, read_only=True) as store, store.read() as session:
        spent = sum(sweep_snapshot(session, each.name).spent_gpu_hours for each in session.query(Sweep))
        assert spent <= store.plan().budget_gpu_hours
    return spent


def hold(database: str | Path, driver: Driver, at: datetime | None = None) -> None:
    """Let a driver have taken the sweep, whoever had it before."""
    with open_store(database) as store, store.write() as session:
        take_lease(session, "sweep-1", driver, at or datetime.now(UTC), former_lives=False)
