from pathlib import Path

import pytest

from budgets.errors import StoreError
from planner.store import open_store, opening
from planner.store.opening import filesystem_of, mounted

MOUNTS = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:40 / /home rw,relatime shared:1 master:2 - nfs4 server:/home rw
31 30 0:41 / /home/me/scratch rw - xfs /dev/sdb rw
32 22 0:42 / /my\\040share rw - cifs //server/share rw
33 22 0:43 / /twice rw - ext4 /dev/sdc rw
34 22 0:44 / /twice rw - fuse.sshfs host:/ rw
35 22 0:45 / /homestead rw - btrfs /dev/sdd rw
a line that is none
x - y
"""


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
def test_the_nearest_mount_counts(path: str, kind: str) -> None:
    assert filesystem_of(Path(path), MOUNTS) == kind


def test_a_machine_that_does_not_tell_its_mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mounted() != "" or not opening.MOUNTINFO.exists()
    monkeypatch.setattr(opening, "MOUNTINFO", tmp_path / "none")
    assert filesystem_of(Path("/var/rlplan.db"), mounted()) == ""
    open_store(tmp_path / "rlplan.db").close()


@pytest.mark.parametrize(("kind", "read_only"), [("nfs4", False), ("cifs", True), ("fuse.sshfs", False)])
def test_a_network_file_system_is_refused_and_left_alone(
    tmp_path: Path, kind: str, read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:40 / {tmp_path} rw - {kind} server:/x rw\n"
    monkeypatch.setattr(opening, "mounted", lambda: mounts)
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
    mounts = f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:40 / {far} rw - nfs4 server:/x rw\n"
    monkeypatch.setattr(opening, "mounted", lambda: mounts)
    with pytest.raises(StoreError, match="nfs4"):
        open_store(tmp_path / "near" / "rlplan.db")
