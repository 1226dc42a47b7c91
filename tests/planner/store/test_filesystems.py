from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from budgets.errors import StoreError
from planner.store import open_store
from planner.store.engine import FileSystem, filesystem_of
from tests.planner.store import samples

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
