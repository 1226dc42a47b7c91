"""What `rlplan price --forget` does, callable from Python: what a run was measured to take no longer counts."""

from dataclasses import dataclass
from pathlib import Path

from budgets.errors import NotFoundError
from planner.store import open_store
from planner.store.costs import forget_costs
from planner.store.engine import locate


@dataclass(frozen=True, slots=True)
class Forgotten:
    """A run or a sweep whose measured costs were removed, as it was stored, and how many records that were."""

    run: str
    records: int


def forget_prices(run: str, database: str) -> Forgotten:
    """Remove the measured costs of an adopted run, by its path or name, or of a sweep; its curve stays."""
    place = locate(database)
    if isinstance(place, Path) and not place.exists():
        raise NotFoundError(f"nothing was measured of '{run}': there is no database {place}; give --db")
    with open_store(database) as store, store.write() as session:
        return Forgotten(*forget_costs(session, run))
