"""Brings an older database to the current version, on a copy's safe side. Imported only when there is one."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

from budgets.errors import StoreError
from planner.store.fresh import HEAD

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(connection: Connection, revision: str, shown: str, path: Path | None) -> list[str]:
    """Upgrade within the connection's transaction, after a copy of an SQLite file; return what was done.

    When a step fails the transaction takes everything back, so that the database stays what it was.
    """
    copy = None if path is None else back_up(path, revision)
    saved = (
        "no copy was made, PostgreSQL does all of it or nothing"
        if copy is None
        else f"a copy of what it was lies at {copy}"
    )
    try:
        migrate(connection, HEAD)
        _require_whole(connection)
    except Exception as error:  # a migration is any code: whatever it raises, the copy's place has to be told
        raise StoreError(
            f"{shown} could not be upgraded from version {revision} to {HEAD} and stays what it was ({error}); {saved}"
            ". Go on with the rlplan that wrote it, and report this"
        ) from error
    return [f"upgraded {shown} from version {revision} to {HEAD}; {saved}"]


def _require_whole(connection: Connection) -> None:
    """Refuse an upgrade after which a row refers to one that is gone; SQLite does not look at that meanwhile."""
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all() if connection.dialect.name == "sqlite" else []
    if broken:
        raise StoreError(f"{len(broken)} rows of {broken[0][0]} and others would refer to nothing")


def migrate(connection: Connection, revision: str) -> None:
    """Run the migrations up to a version on a connection that is in a transaction."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def back_up(path: Path, revision: str) -> Path:
    """Copy a database, with what is in its write-ahead log, beside it; the copy gets its name when it is whole."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    copy = path.with_name(f"{path.name}.backup-{revision}-{moment}")
    part = copy.with_name(f"{copy.name}.part")
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(part)) as target:
            source.backup(target)
        return part.replace(copy)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
