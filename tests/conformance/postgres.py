"""A throw-away PostgreSQL for tests: the one RLPLAN_TEST_POSTGRES names, or one started here on a Unix socket."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

_numbers = count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    given = os.environ.get("RLPLAN_TEST_POSTGRES")
    if given:
        yield given
        return
    binaries = _binaries()
    if binaries is None:
        reason = "no PostgreSQL: set RLPLAN_TEST_POSTGRES to a URL, or install the server (initdb, pg_ctl)"
        if os.environ.get("RLPLAN_REQUIRE_POSTGRES") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="rlplan-pg-") as folder:
        user = _own(Path(folder))
        data = Path(folder) / "data"
        _run(user, binaries / "initdb", "-D", data, "-U", "rlplan", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        _run(user, binaries / "pg_ctl", "-D", data, "-l", Path(folder) / "log", "-w", "-o", options, "start")
        try:
            yield f"postgresql://rlplan@/postgres?host={folder}"
        finally:
            _run(user, binaries / "pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The URL of a fresh, empty schema."""
    schema = f"rlplan_test_{os.getpid()}_{next(_numbers)}"
    engine = create_engine(make_url(postgres_server).set(drivername="postgresql+psycopg"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"CREATE SCHEMA {schema}")
    url = make_url(postgres_server).update_query_dict({"options": f"-csearch_path={schema}"})
    yield url.render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
    engine.dispose()


def _binaries() -> Path | None:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    on_path = shutil.which("initdb")
    if on_path:
        folders.append(Path(on_path).parent)
    return next((folder for folder in reversed(folders) if (folder / "pg_ctl").exists()), None)


def _own(folder: Path) -> str | None:
    """Give the folder to a user under whom the server agrees to run; it refuses root."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    user = "postgres" if "postgres" in known else "nobody"
    shutil.chown(folder, user)
    return user


def _run(user: str | None, *command: object) -> None:
    done = subprocess.run(
        [str(part) for part in command], user=user, cwd="/", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
