"""The results database: everything that was proposed, run, seen and decided, in one SQLite file or on PostgreSQL."""

from planner.store.database import open_store
from planner.store.store import ReplacedError, Store

__all__ = ["ReplacedError", "Store", "open_store"]
