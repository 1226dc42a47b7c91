from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from budgets.errors import StoreError
from planner.store import open_store
from planner.store.opening import filesystem_of

MOUNTS = (
    ("/", "ext4"),
    ("/home", "nfs4"),
    ("/home/me/scratch", "xfs"),
    ("/my share", "cifs"),
    ("/twice", "ext4"),
    ("/twice", "fuse.sshfs"),
    ("/homestead", "btrfs"),
)


def mounted(monkeypatch: pytest.MonkeyPatch, *mounts: tuple[str | Path, str]) -> None:
    found = [SimpleNamespace(mountpoint=str(point), fstype=kind) for point, kind in mounts]
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
    assert filesystem_of(Path(path)) == kind


def test_a_machine_that_does_not_tell_its_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert filesystem_of(tmp_path) != ""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path / "none"), raising=False)
    assert filesystem_of(Path("/var/rlplan.db")) == ""
    mounted(monkeypatch)
    assert filesystem_of(Path("/var/rlplan.db")) == ""
    open_store(tmp_path / "rlplan.db").close()


@pytest.mark.parametrize(("kind", "read_only"), [("nfs4", False), ("cifs", True), ("fuse.sshfs", False)])
def test_a_network_file_system_is_refused_and_left_alone(
    tmp_path: Path, kind: str, read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted(monkeypatch, ("/", "ext4"), (tmp_path, kind))
    with pytest.raises(StoreError) as raised:
        open_store(tmp_path / "rlplan.db", read_only=read_only)
    message = str(raised.value)
    assert f"{tmp_path}/rlplan.db lies on a network file system ({kind})" in message
    assert "local disk" in message
    assert "postgresql://" in message
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_network_file_system_is_seen_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = tmp_path / "far"
    far.mkdir()
    (tmp_path / "near").symlink_to(far)
    mounted(monkeypatch, ("/", "ext4"), (far, "nfs4"))
    with pytest.raises(StoreError, match="nfs4"):
        open_store(tmp_path / "near" / "rlplan.db")
