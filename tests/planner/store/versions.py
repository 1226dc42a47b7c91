"""A database of the oldest version that is opened, written out in SQL, and a made-up version after the newest."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Connection

from planner.store import opening, upgrade
from planner.store.engine import sqlite_engines
from planner.store.fresh import HEAD, REVISIONS
from planner.store.upgrade import MIGRATIONS

OLDEST = (Path(__file__).parent / "version_0011.sql").read_text(encoding="utf-8")
# What PostgreSQL calls the types that SQLite has.
ON_POSTGRESQL = {
    r"\bid INTEGER NOT NULL": "id SERIAL NOT NULL",
    r"\bDATETIME\b": "TIMESTAMP WITH TIME ZONE",
    r"\bDOUBLE\b": "DOUBLE PRECISION",
}

MADE_UP = "9999"
# As real ones do: a column, a table made anew under what refers to its rows, and in the end another table.
MIGRATION = f'''
import sqlalchemy as sa
from alembic import op
from planner.store.schema import Trial

revision, down_revision = "{MADE_UP}", "{HEAD}"

def upgrade():
    op.add_column("plans", sa.Column("note", sa.Text(), nullable=True))
    if op.get_bind().dialect.name == "sqlite":
        op.execute("CREATE TABLE kept AS SELECT * FROM trials")
        op.drop_table("trials")
        Trial.__table__.create(op.get_bind())
        op.execute("INSERT INTO trials SELECT * FROM kept")
        op.drop_table("kept")
    op.create_table("made_up", sa.Column("id", sa.Integer(), primary_key=True))
'''


def write_oldest(connection: Connection) -> None:
    """Write the tables, the view and a few rows of the oldest version into an empty database."""
    script = OLDEST
    if connection.dialect.name == "postgresql":
        for type_, other in ON_POSTGRESQL.items():
            script = re.sub(type_, other, script)
    for statement in script.strip().removesuffix(";").split(";\n"):
        connection.exec_driver_sql(statement)


def oldest_file(path: Path) -> None:
    """Write an SQLite file of the oldest version."""
    engines = sqlite_engines(path, 5.0)
    with engines.writer.begin() as connection:
        write_oldest(connection)
    engines.dispose()


def add_version(folder: Path) -> Path:
    """Return a folder of migrations that has the made-up version too."""
    migrations = folder / "migrations"
    shutil.copytree(MIGRATIONS, migrations)
    (migrations / "versions" / f"{MADE_UP}_made_up.py").write_text(MIGRATION, encoding="utf-8")
    return migrations


def use_version(migrations: Path, set_attribute: Callable[[object, str, object], None] = setattr) -> None:
    """Let this process open databases as an rlplan does whose newest version is the made-up one."""
    set_attribute(opening, "REVISIONS", (*REVISIONS, MADE_UP))
    set_attribute(opening, "HEAD", MADE_UP)
    set_attribute(upgrade, "HEAD", MADE_UP)
    set_attribute(upgrade, "MIGRATIONS", migrations)
