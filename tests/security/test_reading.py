"""To look changes nothing; and what is written to be looked at takes nobody's place."""

import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.rlplan.conftest import Run, run  # noqa: F401 (a fixture)
from tests.rlplan.web.visits import visiting

READING = (
    ["status"],
    ["status", "--all"],
    ["rank"],
    ["status", "n512-B32-s0"],
    ["decisions"],
    ["export", "-", "--what", "points"],
    ["report", "out.html"],
)
NOBODY = 65534


def state(database: Path) -> tuple[bytes, int, int, int]:
    found = database.stat()
    return database.read_bytes(), found.st_mtime_ns, found.st_mode, found.st_ino


def beside(database: Path) -> dict[str, int]:
    return {each.name: each.stat().st_size for each in database.parent.glob(f"{database.name}*") if each != database}


def look_at_all(database: Path, run: Run) -> None:  # noqa: F811
    for command in READING:
        assert run(*command, "--db", str(database)).code == 0, command
    with visiting(database) as client:
        for path in ("/", "/sweeps/sweep-1", "/sweeps/sweep-1/data.json"):
            assert client.get(path).status_code == 200


def test_to_look_changes_nothing(run: Run, database: Path) -> None:  # noqa: F811
    before = state(database)
    look_at_all(database, run)
    assert state(database) == before
    assert set(beside(database)) <= {"rlplan.db-wal", "rlplan.db-shm"}
    assert beside(database).get("rlplan.db-wal", 0) == 0


def test_a_file_that_nobody_may_write_is_shown(run: Run, database: Path) -> None:  # noqa: F811
    database.chmod(0o444)
    before = state(database)
    look_at_all(database, run)
    assert state(database) == before


@contextmanager
def as_nobody() -> Iterator[None]:
    """Be somebody to whom rights of files mean something, if this process is not that already."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared(database: Path) -> Iterator[Path]:
    """The database in a folder that others may read, and nobody may write to."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "rlplan.db"
        path.write_bytes(database.read_bytes())
        path.chmod(0o444)
        folder.chmod(0o555)
        yield path
        folder.chmod(0o755)


def test_a_folder_that_nobody_may_write_to_is_looked_at_and_left_as_it_is(shared: Path, run: Run) -> None:  # noqa: F811
    before = state(shared)
    with as_nobody():
        ran = run("status", "--db", str(shared))
    assert ran.code == 0, ran.err
    assert state(shared) == before
    assert beside(shared) == {}


@pytest.mark.parametrize("name", ["results.html", "results.HTM"])
@pytest.mark.parametrize("suffix", ["", "-wal", "-journal"])
def test_a_report_never_takes_a_database_s_place(run: Run, database: Path, name: str, suffix: str) -> None:  # noqa: F811
    if suffix:
        name = f"{name}{suffix}"
    stored = database.rename(database.with_name(name.removesuffix(suffix)))
    before = state(stored)
    ran = run("report", str(stored) + suffix, "--db", str(stored))
    assert ran.code == 2
    assert "left as it is" in ran.err or "does not end in .html" in ran.err
    assert state(stored) == before


def test_an_export_never_takes_a_database_s_place(run: Run, database: Path) -> None:  # noqa: F811
    before = state(database)
    link = database.with_name("link.csv")
    link.symlink_to(database)
    for out in (str(database), str(link), f"{database}-wal"):
        with closing(sqlite3.connect(database)) as reader:
            reader.execute("SELECT count(*) FROM sweeps").fetchone()
            Path(f"{database}-wal").touch()
            ran = run("export", out, "--what", "points", "--format", "csv", "--force", "--db", str(database))
        assert ran.code == 2, out
        assert "is a database, or a part of one" in ran.err
    assert database.read_bytes() == before[0]


def test_a_report_at_a_link_replaces_the_link_alone(run: Run, database: Path) -> None:  # noqa: F811
    private = database.with_name("private.html")
    private.write_text("mine")
    link, to_folder = database.with_name("link.html"), database.with_name("there")
    link.symlink_to(private)
    to_folder.mkdir()
    database.with_name("folder").symlink_to(to_folder)
    assert run("report", str(link), "--db", str(database)).code == 0
    assert private.read_text() == "mine"
    assert not link.is_symlink()
    linked = database.with_name("database.html")
    linked.symlink_to(database)
    before = state(database)
    ran = run("report", str(linked), "--db", str(database))
    assert ran.code == 2
    assert state(database) == before
    assert run("report", str(database.with_name("folder") / "a.html"), "--db", str(database)).code == 0
    assert (to_folder / "a.html").is_file()


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_what_is_written_has_the_rights_of_any_new_file(run: Run, database: Path, mask: int, mode: int) -> None:  # noqa: F811
    before = os.umask(mask)
    try:
        assert run("report", "out.html", "--db", str(database)).code == 0
        assert run("export", "out.csv", "--what", "points", "--db", str(database)).code == 0
        for name in ("out.html", "out.csv"):
            assert stat.S_IMODE(Path(name).stat().st_mode) == mode
        left = {each.name for each in Path.cwd().iterdir() if each.name.startswith(".")}
        assert left == set()
    finally:
        os.umask(before)
