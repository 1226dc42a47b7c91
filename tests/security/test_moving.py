"""The database is cut off, overwritten, replaced, locked or taken away while it is shown; nothing ends with it."""

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rlplan.web.dashboard import source
from tests.rlplan.sweep_rows import seeded
from tests.security.attacker import SWEEP, Answer, Target, harmless, serving


@pytest.fixture
def target(database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    """A dashboard that has shown the sweep once, and waits for no lock."""
    monkeypatch.setattr(source, "LOCK_SECONDS", 0.05)
    with serving(database) as target:
        assert target.get(SWEEP).status == 200
        yield target


def becomes(target: Target, path: str, holds: Callable[[Answer], bool]) -> Answer:
    """Ask until the answer is as wanted; the dashboard looks twice a second."""
    for _ in range(600):
        given = target.get(path)
        harmless(given)
        assert given.status in (200, 404, 503)
        if holds(given):
            return given
        time.sleep(0.05)
    raise AssertionError(f"still {given.status} {given.text[-300:]}")


def overwrite(path: Path, content: bytes) -> None:
    """Write into the file that is there, as `cp` does."""
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()


CONTENTS: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda whole: whole[: len(whole) // 8192 * 4096],
    "cut off within a page": lambda whole: whole[:5000],
    "emptied": lambda _: b"",
    "something else": lambda whole: b"<html>" * (len(whole) // 6),
    "zeros behind its first page": lambda whole: whole[:4096] + bytes(len(whole) - 4096),
    "an old one's beginning": lambda whole: whole[:100],
}


@pytest.mark.parametrize("what", CONTENTS)
def test_a_file_that_is_overwritten_is_said_and_shown_again_when_it_is_whole(
    database: Path, target: Target, what: str
) -> None:
    whole = database.read_bytes()
    overwrite(database, CONTENTS[what](whole))
    becomes(target, "/healthz", lambda given: given.status == 503)
    overwrite(database, whole)
    becomes(target, "/healthz", lambda given: given.status == 200)
    becomes(target, SWEEP, lambda given: given.status == 200)


@pytest.mark.parametrize("how", ["copied over", "moved over"])
def test_another_database_in_its_place_is_shown(database: Path, target: Target, tmp_path: Path, how: str) -> None:
    newer = seeded(tmp_path / "newer.db")
    newer.trial(4096, 64)
    newer.store.close()
    if how == "copied over":
        shutil.copyfile(tmp_path / "newer.db", database)
    else:
        os.replace(tmp_path / "newer.db", database)
    becomes(target, SWEEP, lambda given: "n4096-B64-s0" in given.text)
    becomes(target, "/", lambda given: "8, 2 running" in given.text)


def test_a_database_without_its_sweep_is_not_shown_from_memory(target: Target, database: Path, tmp_path: Path) -> None:
    from planner.store import open_store

    with open_store(tmp_path / "empty.db"):
        pass
    os.replace(tmp_path / "empty.db", database)
    becomes(target, SWEEP, lambda given: given.status == 404)
    becomes(target, "/", lambda given: "There is no sweep here yet" in given.text)


def test_who_looks_on_hears_that_it_went_and_came_back(database: Path, target: Target) -> None:
    becomes(target, f"{SWEEP}/state", lambda given: "versions" in given.text)
    database.rename(database.with_suffix(".away"))
    told = becomes(target, f"{SWEEP}/state", lambda given: '{"trouble": "there is no results database' in given.text)
    assert "Traceback" not in told.text
    database.with_suffix(".away").rename(database)
    becomes(target, f"{SWEEP}/state", lambda given: "versions" in given.text)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to nothing", "link to itself"])
def test_what_is_no_file_is_said(database: Path, target: Target, kind: str) -> None:
    away = database.rename(database.with_suffix(".away"))
    if kind == "folder":
        database.mkdir()
    elif kind == "pipe":
        os.mkfifo(database)
    else:
        database.symlink_to(database if kind == "link to itself" else database.with_name("nothing"))
    becomes(target, "/healthz", lambda given: given.status == 503)
    if kind == "folder":
        database.rmdir()
    else:
        database.unlink()
    away.rename(database)
    becomes(target, SWEEP, lambda given: given.status == 200)


def test_a_lock_is_said_and_not_waited_for(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LOCK_SECONDS", 0.05)
    for name in ("-wal", "-shm"):
        database.with_name(database.name + name).unlink(missing_ok=True)
    with closing(sqlite3.connect(database, isolation_level=None, check_same_thread=False)) as writer:
        writer.execute("PRAGMA journal_mode = DELETE")
        with serving(database) as target:
            assert target.get(SWEEP).status == 200
            writer.execute("BEGIN EXCLUSIVE")
            given = becomes(target, "/healthz", lambda given: given.status == 503)
            assert "is locked" in given.text
            assert given["retry-after"] == "3"
            assert target.get("/static/rlplan.css").status == 200
            writer.execute("ROLLBACK")
            becomes(target, "/healthz", lambda given: given.status == 200)
            becomes(target, SWEEP, lambda given: given.status == 200)
