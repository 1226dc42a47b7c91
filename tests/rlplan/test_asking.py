"""`rlplan pause`, `rlplan stop` and the resume of a paused sweep, beside a driver that a test plays."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

import rlplan.commands.resume
from planner.store import open_store
from planner.store.control import Driver, take, waiting
from planner.store.schema import RequestKind
from rlplan.commands.resume import ask_driver
from tests.rlplan.conftest import Run
from tests.rlplan.stored_rows import hold
from tests.rlplan.sweep_rows import seeded

SECONDS = 20.0  # after which the played driver goes, in any case


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with a sweep that is driven now."""
    path = tmp_path / "rlplan.db"
    seeder = seeded(path)
    seeder.store.close()
    hold(path, Driver("living@1", "node-7", 12))
    monkeypatch.setattr(rlplan.commands.resume, "this_user", lambda: "anna@desk")
    return path


@contextmanager
def answering(path: Path) -> Iterator[None]:
    """Take every request soon after it was made, as a driver does."""
    over = threading.Event()

    def drive() -> None:
        with open_store(path) as store:
            while not over.wait(0.02):
                with store.read() as session:
                    found = waiting(session, 1)
                for each in found:
                    with store.write() as session:
                        take(session, each, datetime.now(UTC))

    thread = threading.Thread(target=drive)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(SECONDS)


def test_a_sweep_is_paused_shown_as_such_and_goes_on(run: Run, database: Path) -> None:
    with answering(database):
        ran = run("pause")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith("sweep-1 is paused: segments under way end normally, and no new one starts.")
        assert "Next rlplan resume sweep-1 goes on with it" in ran.text
        status = run("status", "sweep-1")
        assert "policy rlplan, paused" in status.out
        assert "paused since" in status.out.splitlines()[1]
        assert "on request of anna@desk" in run("status", "sweep-1", width=160).out.splitlines()[1]
        document = run.json("status", "sweep-1")
        assert datetime.fromisoformat(document["paused_since"]) <= datetime.now(UTC)
        assert (document["hold"]["kind"], document["hold"]["by"]) == ("pause", "anna@desk")
        assert document["seconds_left_at_most"] is None
        again = run("pause")
        assert again.code == 3
        assert "sweep-1 is paused already, on request of anna@desk" in again.err
        gone_on = run("resume", "sweep-1")
        assert (gone_on.code, gone_on.out.partition(".")[0]) == (0, "sweep-1 goes on")
        assert run.json("status", "sweep-1")["hold"] is None


def test_a_stop_is_asked_for_and_told(run: Run, database: Path) -> None:
    with answering(database):
        ran = run("stop", "sweep-1", "--format", "json")
    document = ran.json
    assert ran.code == 0
    assert (document["sweep"], document["kind"], document["by"]) == ("sweep-1", "stop", "anna@desk")
    assert datetime.fromisoformat(document["taken_at"]) >= datetime.fromisoformat(document["at"])
    assert "stopping since" in run("status", "sweep-1").out


def test_a_driver_that_does_not_answer_at_once_is_not_waited_for_long(
    run: Run, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rlplan.commands.resume, "PATIENCE_SECONDS", 0.0)
    ran = run("pause")
    assert ran.code == 0
    assert ran.text == (
        "sweep-1 was asked to pause; its driver has not answered yet. Next rlplan status sweep-1 shows whether it has"
    )
    assert "to be paused on request of anna@desk" in run("status", width=160).out


def test_what_needs_a_new_driver_is_refused_in_a_pause(
    run: Run, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rlplan.commands.resume, "PATIENCE_SECONDS", 0.0)
    ask_driver(str(database), None, RequestKind.PAUSE)
    ran = run("resume", "--workers", "4")
    assert ran.code == 2
    assert "so --workers cannot change" in ran.err
