"""An upgraded database and one made afresh must have one schema, and an upgrade must keep what is there."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, PrimaryKeyConstraint, UniqueConstraint, text
from sqlalchemy.exc import IntegrityError

from budgets.errors import StoreError
from planner.store import open_store, results
from planner.store.base import Base
from planner.store.engine import Engines, locate, postgres_engines, references_unchecked, sqlite_engines
from planner.store.fresh import HEAD, REVISIONS, create_schema
from planner.store.upgrade import MIGRATIONS, migrate
from tests.planner.store import samples
from tests.planner.store.samples import NOON, plan
from tests.planner.store.versions import MADE_UP, add_version, use_version, write_oldest


@pytest.fixture
def engines(location: str) -> Iterator[Engines]:
    place = locate(location)
    made = sqlite_engines(place, 5.0) if isinstance(place, Path) else postgres_engines(place, 5.0)
    yield made
    made.dispose()


def described(connection: Connection) -> set[Any]:
    """Everything the database says about its tables, constraints, indexes and views, without regard to order."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master")
        # A column that was added later stands after the constraints, in the last line.
        return {(row.type, row.name, *sorted(filter(None, re.split(r"\s*[,\n]\s*", row.sql or "")))) for row in rows}
    queries = (
        "SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default, "
        "character_maximum_length FROM information_schema.columns WHERE table_schema = current_schema()",
        "SELECT conname, conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = current_schema()::regnamespace",
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()",
        "SELECT viewname, definition FROM pg_views WHERE schemaname = current_schema()",
    )
    return {tuple(row) for query in queries for row in connection.exec_driver_sql(query)}


def put_oldest(engines: Engines) -> None:
    with engines.writer.begin() as connection:
        write_oldest(connection)


def test_the_oldest_version_brought_to_the_newest_is_what_is_made_afresh(engines: Engines) -> None:
    put_oldest(engines)
    with engines.writer.connect() as connection, references_unchecked(connection), connection.begin():
        migrate(connection, HEAD)
    with engines.reader.connect() as connection:
        migrated = described(connection)
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    with engines.writer.begin() as connection:
        connection.exec_driver_sql("DROP VIEW ranked_allocations")
        connection.exec_driver_sql("DROP TABLE alembic_version")
        Base.metadata.drop_all(connection)
        create_schema(connection)
    with engines.reader.connect() as connection:
        fresh = described(connection)
    assert len(fresh) > len(Base.metadata.tables)
    assert fresh == migrated


def test_a_reference_is_found_without_looking_through_its_table() -> None:
    """To delete a sweep is slow, and every other process waits for it, where what refers to its rows has no index."""
    for table in Base.metadata.tables.values():
        constraints = [each for each in table.constraints if isinstance(each, UniqueConstraint | PrimaryKeyConstraint)]
        firsts = {next(iter(each.columns)).name for each in (*table.indexes, *constraints) if len(each.columns)}
        assert {key.parent.name for key in table.foreign_keys} <= firsts, table.name


def test_the_list_of_versions_is_the_chain_of_migrations() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    chain = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(chain)) == REVISIONS


@pytest.mark.parametrize("read_only", [False, True])
def test_a_database_of_before_the_oldest_version_is_refused_and_left_as_it_is(
    location: str, engines: Engines, read_only: bool
) -> None:
    put_oldest(engines)
    with engines.writer.begin() as connection:
        connection.exec_driver_sql("DROP TABLE experiences")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0010'")
    with engines.reader.connect() as connection:
        before = described(connection)
    with pytest.raises(StoreError, match=r"version 0010, .*opens version 0011 and later.*once for writing with") as it:
        open_store(location, read_only=read_only)
    assert "or give another path with --db" in str(it.value)
    with engines.reader.connect() as connection:
        assert described(connection) == before
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "0010"
        assert connection.scalar(text("SELECT count(*) FROM points")) == 1


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_version(add_version(tmp_path), monkeypatch.setattr)


@pytest.mark.usefixtures("next_version")
def test_an_older_database_is_upgraded_and_keeps_its_rows_and_what_refers_to_them(
    location: str, engines: Engines
) -> None:
    put_oldest(engines)
    with open_store(location) as store:
        (notice,) = store.notices
        assert f"upgraded {store.location} from version 0011 to {MADE_UP}" in notice
        assert ("PostgreSQL" if "postgresql" in location else "a copy of what it was lies at") in notice
        (row,) = samples.look(store, results.ranked_allocations)
        assert (row["sweep"], row["rank"], row["gpu_hours_spent"], row["status"]) == ("sweep-1", 1, 1.5, "finished")
        (point,) = samples.points(store, 1)
        assert (point.score, point.segment_id) == (0.5, 1)
        with store.read() as session:
            row = session.execute(text("SELECT candidate_id, state, axes FROM trials")).one()
            assert tuple(row) == (1, "finished", "{}")
            assert session.execute(text("SELECT count(*) FROM segments")).scalar() == 1
            assert session.execute(text("SELECT note FROM plans")).scalar() is None
        assert store.save_plan(plan(), [], created_at=NOON) == "plan-2"
        orphan = (
            "INSERT INTO transitions (trial_id, to_state, at, reason) VALUES (9, 'lost', '2026-03-01 12:00:00', '')"
        )
        with pytest.raises(IntegrityError), store.write() as session:
            session.execute(text(orphan))
    with open_store(location) as store:
        assert store.notices == []


@pytest.mark.usefixtures("next_version")
def test_an_upgrade_that_fails_midway_leaves_the_database_as_it_was(location: str, engines: Engines) -> None:
    put_oldest(engines)
    with engines.writer.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE made_up (taken INTEGER)")  # as the last step of the upgrade calls its
    with engines.reader.connect() as connection:
        before = described(connection)
    with pytest.raises(StoreError, match=f"could not be upgraded from version 0011 to {MADE_UP} and stays what it was"):
        open_store(location)
    with engines.reader.connect() as connection:
        assert described(connection) == before
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "0011"
        assert connection.scalar(text("SELECT count(*) FROM points")) == 1
    with engines.writer.begin() as connection:
        connection.exec_driver_sql("DROP TABLE made_up")
    with open_store(location) as store:
        assert len(samples.look(store, results.ranked_allocations)) == 1


@pytest.mark.usefixtures("next_version")
def test_reading_alone_does_not_upgrade(location: str, engines: Engines) -> None:
    put_oldest(engines)
    with pytest.raises(StoreError, match=r"older rlplan.*`rlplan doctor --upgrade`"):
        open_store(location, read_only=True)
    with engines.reader.connect() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "0011"


def test_a_newer_database_is_refused(location: str) -> None:
    with open_store(location) as store, store.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0999'"))
    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"newer rlplan \(its version is 0999.*pip install --upgrade rlplan"):
            open_store(location, read_only=read_only)


def test_opening_does_not_import_alembic_or_psycopg_for_sqlite(tmp_path: Path) -> None:
    code = (
        "import sys; from planner.store import open_store; open_store(sys.argv[1]).close(); "
        "print([name for name in ('alembic', 'psycopg', 'numpy', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "rlplan.db")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# PostgreSQL alone


def test_a_postgresql_schema_with_other_tables_is_refused(postgres_url: str) -> None:
    url = locate(postgres_url)
    assert isinstance(url, URL)
    engines = postgres_engines(url, 5.0)
    with engines.writer.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE customers (id integer)")
    with pytest.raises(StoreError, match=r"tables of something else \(customers"):
        open_store(postgres_url)
    with engines.reader.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM information_schema.tables WHERE table_name = 'plans'")) == 0
    engines.dispose()


def test_an_empty_postgresql_schema_holds_nothing_to_read(postgres_url: str) -> None:
    with pytest.raises(LookupError, match="is empty: nothing was stored"):
        open_store(postgres_url, read_only=True)


def test_a_postgresql_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(StoreError, match="does not answer") as raised:
        open_store("postgresql://me:secret@127.0.0.1:1/nothing")
    assert "postgresql://me:***@127.0.0.1:1/nothing" in str(raised.value)
    assert "secret" not in str(raised.value)
