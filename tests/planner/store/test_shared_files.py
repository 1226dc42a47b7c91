"""A database on a file system that two machines share: two mounts of one folder, each with a cache of its own."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from sqlalchemy import text

from budgets.errors import StoreError
from planner.store import open_store
from planner.store.control import Driver, take_lease
from planner.store.engine import FileSystem, filesystem_of
from tests.planner.store import samples
from tests.planner.store.samples import NOON
from tests.planner.store.test_concurrency import WRITE, killed_writer, spawned

MOUNTS = (
    ("/", "ext4"),
    ("/home", "nfs4"),
    ("/home/me/scratch", "xfs"),
    ("/my share", "cifs"),
    ("/twice", "ext4"),
    ("/twice", "fuse.sshfs"),
    ("/homestead", "btrfs"),
)


def mounted(monkeypatch: pytest.MonkeyPatch, *mounts: tuple[str | Path, str], options: str = "rw") -> None:
    found = [SimpleNamespace(mountpoint=str(point), fstype=kind, opts=options) for point, kind in mounts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: found)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/rlplan.db", "ext4"),
        ("/home/me/rlplan.db", "nfs4"),
        ("/home/me/scratch/rlplan.db", "xfs"),
        ("/my share/rlplan.db", "cifs"),
        ("/twice/rlplan.db", "fuse.sshfs"),
        ("/homestead/rlplan.db", "btrfs"),
    ],
)
def test_the_nearest_mount_counts(path: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted(monkeypatch, *MOUNTS)
    assert filesystem_of(Path(path)).kind == kind


def test_a_machine_that_does_not_tell_its_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert filesystem_of(tmp_path).kind != ""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "none"), raising=False)
    assert filesystem_of(Path("/var/rlplan.db")) == FileSystem()
    mounted(monkeypatch)
    assert filesystem_of(Path("/var/rlplan.db")) == FileSystem()
    open_store(tmp_path / "rlplan.db").close()


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        ("cifs", "rw", "whose locks may hold on one machine alone"),
        ("fuse.sshfs", "rw", "whose locks may hold on one machine alone"),
        ("beegfs", "rw", "whose locks may hold on one machine alone"),
        ("nfs", "rw,vers=3,nolock", "mounted with nolock"),
        ("nfs4", "rw,local_lock=all", "mounted with local_lock=all"),
        ("lustre", "rw,localflock", "mounted with localflock"),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_system_whose_locks_hold_on_one_machine_is_refused_and_left_alone(
    tmp_path: Path, kind: str, options: str, why: str, read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted(monkeypatch, ("/", "ext4"), (tmp_path, kind), options=options)
    with pytest.raises(StoreError) as raised:
        open_store(tmp_path / "rlplan.db", read_only=read_only)
    message = str(raised.value)
    assert f"{tmp_path}/rlplan.db is on a network file system ({kind})" in message
    assert why in message
    assert "local disk" in message
    assert "postgresql://" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "options"),
    [("nfs4", "rw,vers=4.2,local_lock=none"), ("nfs", "rw,vers=3"), ("lustre", "rw,flock"), ("gpfs", "rw")],
)
def test_where_locks_hold_on_all_machines_no_log_is_made(
    tmp_path: Path, kind: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted(monkeypatch, ("/", "ext4"), (tmp_path, kind), options=options)
    path = tmp_path / "rlplan.db"
    with open_store(path) as store:
        store.save_plan(samples.plan(), samples.candidates(), created_at=samples.NOON)
        assert {each.name for each in tmp_path.iterdir()} == {"rlplan.db", "rlplan.db-journal"}
    with open_store(path, read_only=True) as store:
        assert store.plan().name == "plan-1"


def test_a_link_to_a_network_file_system_is_seen_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = tmp_path / "far"
    far.mkdir()
    (tmp_path / "near").symlink_to(far)
    mounted(monkeypatch, ("/", "ext4"), (far, "cifs"))
    with pytest.raises(StoreError, match="cifs"):
        open_store(tmp_path / "near" / "rlplan.db")


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
