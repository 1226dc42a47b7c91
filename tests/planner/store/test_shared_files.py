"""A database on a file system that two machines share: two mounts of one folder, each with a cache of its own."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from budgets.errors import StoreError
from planner.store import open_store
from planner.store.control import Driver, take_lease
from tests.planner.store import samples
from tests.planner.store.samples import NOON
from tests.planner.store.test_concurrency import WRITE, killed_writer, spawned

pytestmark = pytest.mark.skipif(
    (os.geteuid() != 0 or shutil.which("bindfs") is None) and not os.environ.get("RLPLAN_REQUIRE_ROOT"),
    reason="needs root and bindfs",
)
# Locks reach the folder beneath, and memory is not shared, as across machines. GlusterFS is such a file system of FUSE.
OPTIONS = ("--enable-lock-forwarding", "--multithreaded", "-o", "direct_io,subtype=glusterfs")


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The folder as each of two machines has it."""
    folder, mounts = tmp_path / "folder", (tmp_path / "here", tmp_path / "there")
    folder.mkdir()
    try:
        for mount in mounts:
            mount.mkdir()
            subprocess.run(["bindfs", *OPTIONS, folder, mount], check=True)
        yield mounts
    finally:
        for mount in mounts:
            subprocess.run(["umount", "--lazy", mount], check=False)


def test_writers_on_two_machines_lose_nothing(machines: tuple[Path, Path]) -> None:
    paths = [machine / "rlplan.db" for machine in machines]
    with open_store(paths[0]) as store:
        samples.started_trial(store)
    start = machines[0].parent / "start"
    processes = [spawned(WRITE, path, start, str(who + 1)) for who, path in enumerate(paths)]
    start.touch()
    assert [process.communicate(timeout=60)[1] for process in processes] == ["", ""]
    for path in paths:
        with open_store(path, read_only=True) as store, store.read() as session:
            assert session.scalar(text("SELECT count(*) FROM plans")) == 81
            assert session.scalar(text("SELECT count(*) FROM points")) == 2 * 80


def test_what_a_killed_writer_left_half_written_is_undone_on_the_other_machine(machines: tuple[Path, Path]) -> None:
    here, there = (machine / "rlplan.db" for machine in machines)
    trial_id, told = killed_writer(here, machines[0].parent / "start")
    with open_store(there, read_only=True) as store:
        points = samples.points(store, trial_id)
    assert len(points) % 20 == 0
    assert len(points) // 20 in (told, told + 1)
    with closing(sqlite3.connect(there)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_file_that_came_with_a_log_leaves_it(machines: tuple[Path, Path], tmp_path: Path) -> None:
    with open_store(tmp_path / "local.db") as store:
        store.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
    shutil.copy(tmp_path / "local.db", machines[0] / "rlplan.db")
    with open_store(machines[0] / "rlplan.db") as here, open_store(machines[1] / "rlplan.db") as there:
        here.save_plan(samples.plan(), samples.candidates(), created_at=NOON)
        assert there.plan("plan-2").name == "plan-2"


def test_a_driver_on_the_other_machine_is_refused(machines: tuple[Path, Path]) -> None:
    here, there = (machine / "rlplan.db" for machine in machines)
    with open_store(here) as store:
        samples.started_trial(store)
        with store.write() as session:
            take_lease(session, "sweep-1", Driver("a", "node-1", 10), NOON)
        with open_store(there) as other, other.write() as session, pytest.raises(StoreError, match="node-1"):
            take_lease(session, "sweep-1", Driver("b", "node-2", 20), NOON)
