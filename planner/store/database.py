"""Opens a database: refuses what is not ours or of another version, and makes what is not there."""

import os
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from shlex import quote

from sqlalchemy import Connection, column, inspect, table

from budgets.errors import NotFoundError, StoreError
from planner.disk import has_no_room
from planner.store import finals  # noqa: F401 (its tables are made with the others)
from planner.store.base import NAME, Base
from planner.store.engine import Engines, filesystem_of, locate, postgres_engines, sqlite_engines
from planner.store.failures import explained
from planner.store.schema import Ranking
from planner.store.store import Store

_RANKED = [column for column in Ranking.__table__.columns if column.name not in ("recommendation_id", "axes")]
RANKED_ALLOCATIONS = table(
    "ranked_allocations",
    column("sweep", NAME),
    *(column(ranked.name, ranked.type) for ranked in _RANKED),
    column("plan", NAME),
    column("axes", NAME),  # as text, unlike those of a ranking
)

# First half: sweeps that have a recommendation show the ranking under the latest one.
# Second half: all others but final runs show their plan's candidates; the sweep is NULL where none ran the plan. Where
# seeds of one allocation differ in state, the status is the first of running, paused, finished, planned, failed, lost,
# pruned.
CREATE_VIEW = f"""\
CREATE VIEW ranked_allocations AS
SELECT {", ".join(column.name for column in RANKED_ALLOCATIONS.columns)}
FROM (
    SELECT plans.id AS plan_id, sweeps.id AS sweep_id, plans.name AS plan, sweeps.name AS sweep,
        {", ".join(f"rankings.{ranked.name}" for ranked in _RANKED)}, rankings.axes
    FROM sweeps
    JOIN plans ON plans.id = sweeps.plan_id
    JOIN rankings ON rankings.recommendation_id = (
        SELECT max(recommendations.id) FROM recommendations WHERE recommendations.sweep_id = sweeps.id
    )
    UNION ALL
    SELECT plans.id, sweeps.id, plans.name, sweeps.name, candidates.rank,
        candidates.rollouts_per_prompt, candidates.prompts_per_batch, candidates.update_steps, candidates.learning_rate,
        coalesce(candidates.recipe, plans.recipe), candidates.expected_score, candidates.score_low,
        candidates.score_high, NULL,
        coalesce(progress.gpu_hours_spent, 0.0), candidates.update_steps * candidates.gpu_hours_per_step,
        CASE progress.stage WHEN 1 THEN 'running' WHEN 2 THEN 'paused' WHEN 3 THEN 'finished' WHEN 4 THEN 'planned'
            WHEN 5 THEN 'failed' WHEN 6 THEN 'lost' WHEN 7 THEN 'pruned' ELSE 'proposed' END, candidates.axes
    FROM plans
    JOIN candidates ON candidates.plan_id = plans.id
    LEFT JOIN sweeps ON sweeps.plan_id = plans.id
        AND NOT EXISTS (SELECT 1 FROM finals WHERE finals.sweep_id = sweeps.id)
    LEFT JOIN (
        SELECT sweep_id, rollouts_per_prompt, prompts_per_batch, axes, sum(gpu_hours_spent) AS gpu_hours_spent,
            min(CASE state WHEN 'running' THEN 1 WHEN 'paused' THEN 2 WHEN 'finished' THEN 3 WHEN 'planned' THEN 4
                WHEN 'failed' THEN 5 WHEN 'lost' THEN 6 ELSE 7 END) AS stage
        FROM trials
        GROUP BY sweep_id, rollouts_per_prompt, prompts_per_batch, axes
    ) AS progress ON progress.sweep_id = sweeps.id
        AND progress.rollouts_per_prompt = candidates.rollouts_per_prompt
        AND progress.prompts_per_batch = candidates.prompts_per_batch
        AND progress.axes = candidates.axes
    WHERE NOT EXISTS (SELECT 1 FROM recommendations WHERE recommendations.sweep_id = sweeps.id)
) AS allocations
ORDER BY plan_id DESC, sweep_id DESC, rank"""

VERSION = "0012"  # of the schema
OLDER = frozenset(f"{number:04}" for number in range(1, 12))
LAST_WITH_MIGRATIONS = "07ecd4c"  # the commit of rlplan that still brings those before 0011 to it
LAST_WITH_UPGRADES = "bdcf9219"  # the commit of rlplan that still brings a database from version 0011 to 0012

# Exactly as alembic makes it, so that it can take over from here.
_VERSION_TABLE = """\
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)"""


def create_schema(connection: Connection) -> None:
    """Make the current version's tables and view in an empty database."""
    Base.metadata.create_all(connection, checkfirst=False)
    connection.exec_driver_sql(CREATE_VIEW)
    connection.exec_driver_sql(_VERSION_TABLE)
    connection.exec_driver_sql(f"INSERT INTO alembic_version (version_num) VALUES ('{VERSION}')")


LOCK_TIMEOUT_SECONDS = 30.0

_OURS = {"alembic_version", "plans", "sweeps", "trials"}
_FIRST_PAGE = 4096  # bytes, of a file to which SQLite has written no table yet
_SMALLEST_PAGE = 512  # bytes, of an SQLite file that is not empty
_HOW_TO_BEGIN = "Run: rlplan propose --budget 5000"


def open_store(
    location: str | Path,
    *,
    read_only: bool = False,
    existing: bool = False,
    lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
) -> Store:
    """Open the results database at a path or URL; make it unless it is only to be read.

    One that is not there is made only where it is not `existing` that is asked for.
    """
    place = locate(location)
    path = place if isinstance(place, Path) else None
    fresh = path is not None and not os.path.exists(path)  # whatever keeps it from being looked at is told below
    if isinstance(place, Path):
        try:
            _check_file(place, read_only, existing or read_only)
        except OSError as error:
            raise StoreError(f"{place} cannot be used: {error.strerror}. Give another path with --db") from error
        shared = filesystem_of(place.resolve()).shared
        engines = sqlite_engines(place, lock_timeout_seconds, shared=shared)
    else:
        engines = postgres_engines(place, lock_timeout_seconds)
    try:
        with explained(engines.shown):
            _prepare(engines, path, read_only, lock_timeout_seconds)
    except BaseException:
        engines.dispose()
        if path is not None and fresh:
            _remove_empty(path)
        raise
    return Store(engines, read_only=read_only)


def _remove_empty(path: Path) -> None:
    """Take back a database that could not be made for want of room; one in which another process writes stays."""
    with suppress(OSError):
        log = path.with_name(f"{path.name}-wal")
        if has_no_room(path) and path.stat().st_size <= _FIRST_PAGE and (not log.exists() or not log.stat().st_size):
            for file in (path, log, path.with_name(f"{path.name}-shm"), path.with_name(f"{path.name}-journal")):
                file.unlink(missing_ok=True)


def _check_file(path: Path, read_only: bool, existing: bool) -> None:
    """Refuse a path that cannot hold the database, before SQLite touches anything.

    The file itself is left to SQLite, also to say that it is no database: whoever opens and closes it in another way
    drops every lock that this process has on it, and another process then takes the write-ahead log away.
    """
    if obstacle := filesystem_of(path.resolve()).obstacle:
        raise StoreError(
            f"{path.resolve()} is on {obstacle}, and SQLite could lose data. Give a path on a local disk, on NFS or "
            "Lustre with their locks, or a PostgreSQL URL: --db postgresql://user@host/database"
        )
    if path.is_dir():
        raise StoreError(f"{path} is a directory; give a file in it: --db {path / 'rlplan.db'}")
    if not path.parent.is_dir():
        folder = quote(str(path.parent))
        raise StoreError(f"{path} cannot be made: its directory does not exist. Run: mkdir -p {folder}")
    if not path.exists():
        if existing:
            raise NotFoundError(f"there is no results database at {path}. {_HOW_TO_BEGIN} --db {quote(str(path))}")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise StoreError(f"{path} cannot be made: this user may not write there; give another path with --db")
        return
    if not path.is_file():
        raise StoreError(f"{path} is not a regular file; give another path with --db")
    if not os.access(path, os.R_OK if read_only else os.R_OK | os.W_OK):
        rights = "readable" if read_only else "readable and writable"
        raise StoreError(f"{path} cannot be used: this user may not; make it {rights}, or give another path with --db")
    if 0 < path.stat().st_size < _SMALLEST_PAGE:  # SQLite would take it for empty
        raise StoreError(f"{path} is not an SQLite database; it was left as it is. Give another path with --db")


def _prepare(engines: Engines, path: Path | None, read_only: bool, lock_timeout_seconds: float) -> None:
    """Make the tables of an empty database, unless it is only to be read."""
    made = False
    if path is None or (path.exists() and path.stat().st_size > 0):
        with engines.reader.connect() as connection:
            made = _has_schema(connection, engines.shown)
    if read_only and not made:
        raise NotFoundError(f"{engines.shown} is empty: nothing was stored in it yet. {_HOW_TO_BEGIN}")
    if read_only:
        return
    if path is not None:
        _set_journal(engines, lock_timeout_seconds)
    if made:
        return
    with engines.writer.begin() as connection:
        if not _has_schema(connection, engines.shown):  # another process may have made it before this one got the lock
            create_schema(connection)


def _has_schema(connection: Connection, shown: str) -> bool:
    """Say whether a database has our tables, or none at all; refuse what is not ours, or of another version."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return False
    if not tables >= _OURS:
        raise StoreError(
            f"{shown} holds the tables of something else ({', '.join(sorted(tables)[:3])}, …); it was left as it is. "
            "Give a path that does not exist yet, or an empty database, with --db"
        )
    version: str | None = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if version in OLDER:
        first = f"{LAST_WITH_MIGRATIONS}, then with that of " if version < max(OLDER) else ""
        raise StoreError(
            f"{shown} has version {version}, of an older rlplan, and was left as it is: this one opens version "
            f"{VERSION}. Copy it and open it once for writing with the rlplan of commit {first}{LAST_WITH_UPGRADES}: "
            "that brings it there; or give another path with --db"
        )
    if version != VERSION:
        raise StoreError(
            f"{shown} was written by a newer rlplan (its version is {version}; this one knows up to {VERSION}). "
            "Run: pip install --upgrade rlplan"
        )
    return True


def _set_journal(engines: Engines, lock_timeout_seconds: float) -> None:
    """Give the file its journal, which it remembers: a write-ahead log lets readers and a writer work at once.

    SQLite does not wait for its lock here, unlike everywhere else, so that two processes that make the same file at
    once would fail without the loop.
    """
    deadline = time.monotonic() + lock_timeout_seconds
    while True:
        try:
            with closing(engines.writer.raw_connection()) as connection:
                connection.cursor().execute(f"PRAGMA journal_mode = {engines.journal}")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
