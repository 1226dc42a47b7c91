"""A database of another version is refused, and left as it is; so is one that holds something else."""

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import URL, PrimaryKeyConstraint, UniqueConstraint, text

from budgets.errors import StoreError
from planner.store import open_store
from planner.store.base import Base
from planner.store.engine import locate, postgres_engines
from tests.planner.store import samples


def test_a_reference_is_found_without_looking_through_its_table() -> None:
    """To delete a sweep is slow, and every other process waits for it, where what refers to its rows has no index."""
    for table in Base.metadata.tables.values():
        constraints = [each for each in table.constraints if isinstance(each, UniqueConstraint | PrimaryKeyConstraint)]
        firsts = {next(iter(each.columns)).name for each in (*table.indexes, *constraints) if len(each.columns)}
        assert {key.parent.name for key in table.foreign_keys} <= firsts, table.name


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("0003", r"version 0003, of an older rlplan.*left as it is.*commit 07ecd4c, then with that of bdcf9219"),
        (
            "0011",
            r"version 0011, of an older rlplan.*left as it is.*once for writing with the rlplan of commit bdcf9219",
        ),
        ("0999", r"newer rlplan \(its version is 0999.*pip install --upgrade rlplan"),
    ],
)
def test_a_database_of_another_version_is_refused_and_left_as_it_is(
    location: str, version: str, advice: str, read_only: bool
) -> None:
    with open_store(location) as store:
        samples.started_trial(store)
        with store.write() as session:
            session.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})
        with pytest.raises(StoreError, match=advice):
            open_store(location, read_only=read_only)
        with store.read() as session:
            assert session.scalar(text("SELECT version_num FROM alembic_version")) == version
            assert session.scalar(text("SELECT count(*) FROM trials")) == 1


def test_opening_does_not_import_psycopg_for_sqlite(tmp_path: Path) -> None:
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
