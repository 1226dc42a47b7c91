"""Opening an SQLite file: what is refused, with which words, and that what is refused stays as it was."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError

from budgets.errors import NotFoundError, StoreError
from planner.store import open_store
from planner.store.engine import locate
from planner.store.failures import explain
from tests.planner.store import samples
from tests.planner.store.samples import NOON


def refusal(location: str | Path, *, read_only: bool = False) -> str:
    with pytest.raises(StoreError) as raised:
        open_store(location, read_only=read_only)
    message = str(raised.value)
    assert len(message.splitlines()) == 1
    return message


def stored(path: Path, plans: int = 1) -> Path:
    with open_store(path) as store:
        for _ in range(plans):
            store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
    return path


# Where


def test_a_fresh_file_is_made_with_a_write_ahead_log(tmp_path: Path) -> None:
    with open_store(tmp_path / "rlplan.db") as store:
        assert (store.notices, store.read_only, store.location) == ([], False, f"{tmp_path}/rlplan.db")
        with store.write() as session:
            settings = [
                session.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "foreign_keys", "synchronous")
            ]
        assert settings == ["wal", 1, 2]  # 2: what is committed outlives a power cut
        with store.read() as session:
            assert session.scalar(text("PRAGMA query_only")) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["rlplan.db"]


@pytest.mark.parametrize("name", ["a b.db", "what?.db", "50%.db", "#1&mode=ro.db", "ü.db"])
def test_any_file_name_will_do(tmp_path: Path, name: str) -> None:
    stored(tmp_path / name)
    with open_store(tmp_path / name, read_only=True) as store:
        assert store.plan().name == "plan-1"
    assert (tmp_path / name).stat().st_size > 0


def test_relative_paths_home_and_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    expected = tmp_path / "rlplan.db"
    for location in ("rlplan.db", "~/rlplan.db", "sqlite:///rlplan.db", f"sqlite+pysqlite:///{expected}", expected):
        assert locate(location) == expected
    for url in ("postgresql://me@host/db", "postgres://me@host/db", "postgresql+psycopg://me@host/db"):
        assert str(locate(url)) == "postgresql+psycopg://me@host/db"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("mysql://host/db", "'mysql' is not a database that rlplan works with"),
        ("postgresql+asyncpg://host/db", "'postgresql+asyncpg' is not a database"),
        ("sqlite+aiosqlite:///x.db", "'sqlite+aiosqlite' is not a database"),
        ("sqlite://", "'sqlite://' names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("://x", "not a database URL"),
        ("postgresql://me@host:port/db", "'postgresql://me@host:port/db' has a port that is no number"),
    ],
)
def test_urls_that_are_not_ours(given: str, said: str) -> None:
    message = refusal(given)
    assert said in message
    assert "allowed are a path, sqlite:///path and postgresql://user@host/database" in message


def test_postgresql_without_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    message = refusal("postgresql://me:secret@host/db")
    assert "pip install 'rlplan[postgres]'" in message
    assert "secret" not in message


# What cannot be opened


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "{place} is a directory; give a file in it: --db {place}/rlplan.db"),
        ("runs/rlplan.db", "its directory does not exist. Run: mkdir -p {folder}/runs"),
        ("pipe.db", "{place} is not a regular file"),
        ("x" * 300, "cannot be used: File name too long. Give another path with --db"),
        ("/proc/rlplan.db", "/proc/rlplan.db cannot be opened"),
    ],
)
def test_a_place_that_cannot_hold_a_database_is_refused_and_nothing_is_made(
    tmp_path: Path, name: str, said: str
) -> None:
    os.mkfifo(tmp_path / "pipe.db")
    assert said.format(place=tmp_path / name, folder=tmp_path) in refusal(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe.db"]


def test_reading_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        NotFoundError, match=r"there is no results database at .*rlplan propose --budget 5000"
    ) as raised:
        open_store(tmp_path / "rlplan.db", read_only=True)
    assert str(tmp_path) in str(raised.value)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotFoundError, match=r"--budget 5000 --db '.*/two words.db'$"):
        open_store(tmp_path / "two words.db", read_only=True)


def test_an_empty_file_becomes_a_database_when_written_and_holds_nothing_when_read(tmp_path: Path) -> None:
    path = tmp_path / "rlplan.db"
    path.touch()
    with pytest.raises(NotFoundError, match="is empty: nothing was stored in it yet"):
        open_store(path, read_only=True)
    assert path.stat().st_size == 0
    stored(path)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    "content", [b"step,score\n1,0.5\n", b"x", b"SQLite format 3", b"\0" * 5000, b"SQLite format 3\0" + b"junk" * 2000]
)
def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, content: bytes, read_only: bool) -> None:
    path = tmp_path / "notes.csv"
    path.write_bytes(content)
    message = refusal(path, read_only=read_only)
    assert f"{path} is not an SQLite database; it was left as it is" in message
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["notes.csv"]


def test_a_damaged_database_is_said_to_be_damaged_and_left_alone(tmp_path: Path) -> None:
    path = stored(tmp_path / "rlplan.db")
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xff" * 3996  # the first page, which lists the tables
    path.write_bytes(content)
    message = refusal(path)
    assert f"{path} is damaged; nothing in it was changed" in message
    assert ".recover" in message
    assert path.read_bytes() == bytes(content)


def test_damage_found_later_is_explained_too(tmp_path: Path) -> None:
    path = stored(tmp_path / "rlplan.db", plans=60)
    content = bytearray(path.read_bytes())
    content[-3 * 4096 :] = b"\xff" * (3 * 4096)
    path.write_bytes(content)

    def read_all() -> None:
        with open_store(path, read_only=True) as store:
            for number in range(60):
                store.plan(f"plan-{number + 1}")

    with pytest.raises(StoreError, match="is damaged"):
        read_all()


@pytest.mark.parametrize("read_only", [False, True])
def test_the_database_of_something_else_is_left_alone(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "places.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE bookmarks (url)")
        connection.execute("CREATE TABLE alembic_version (version_num)")
    before = path.read_bytes()
    message = refusal(path, read_only=read_only)
    assert "holds the tables of something else (alembic_version, bookmarks" in message
    assert "left as it is" in message
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["places.db"]


def test_a_database_without_a_version_is_not_guessed_at(tmp_path: Path) -> None:
    with open_store(tmp_path / "rlplan.db") as store, store.write() as session:
        session.execute(text("DELETE FROM alembic_version"))
    assert "newer rlplan" in refusal(tmp_path / "rlplan.db")


# Rights. The superuser may do everything, so that these run as nobody.

OPEN_AS_NOBODY = """
import os, sys
from sqlalchemy import create_engine
from planner.store import open_store
from budgets.errors import StoreError
create_engine("sqlite://")  # imports all it needs while it may
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for path, mode in zip(sys.argv[1::2], sys.argv[2::2]):
    try:
        open_store(path, read_only=mode == "ro").close()
        print("opened")
    except StoreError as error:
        print(error)
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that others may enter, which they may not the folders that pytest makes."""
    with tempfile.TemporaryDirectory(prefix="rlplan-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def said_to_nobody(*tries: tuple[Path, str]) -> list[str]:
    """Return in a line what each attempt to open a path, for writing or reading, says."""
    given = [str(each) for attempt in tries for each in attempt]
    done = subprocess.run([sys.executable, "-c", OPEN_AS_NOBODY, *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_file_or_a_directory_that_may_not_be_read_or_written(public: Path) -> None:
    readable, hidden, folder = stored(public / "readable.db"), stored(public / "hidden.db"), public / "archive"
    folder.mkdir()
    beside = stored(folder / "rlplan.db")
    readable.chmod(0o444)
    hidden.chmod(0o000)
    beside.chmod(0o666)
    folder.chmod(0o555)
    said = said_to_nobody((readable, "rw"), (hidden, "ro"), (beside, "rw"), (beside, "ro"), (folder / "new.db", "rw"))
    wanted = [
        f"{readable} cannot be used: this user may not; make it readable and writable, or",
        f"{hidden} cannot be used: this user may not; make it readable, or",
        f"{beside} cannot be opened: SQLite must be able to write beside it",
        "opened",  # to be looked at
        f"{folder / 'new.db'} cannot be made: this user may not write there",
    ]
    assert [line[: len(start)] for line, start in zip(said, wanted, strict=True)] == wanted
    folder.chmod(0o755)


# Errors that are not the database's are not hidden


def test_errors_of_the_caller_pass_unchanged(tmp_path: Path) -> None:
    with open_store(tmp_path / "rlplan.db") as store:
        with pytest.raises(IntegrityError), store.write() as session:
            session.execute(text("INSERT INTO transitions (trial_id, to_state, at, reason) VALUES (1, 'lost', '', '')"))
        with pytest.raises(DBAPIError, match="syntax"), store.read() as session:
            session.execute(text("SELEKT"))
        with pytest.raises(StatementError), store.read() as session:
            session.execute(text("SELECT :missing"))
        store.close()
    assert explain(ValueError()) is None
