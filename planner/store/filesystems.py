"""Which file system a path lies on: SQLite's locks and shared memory do not work across a network."""

import re
from pathlib import Path

from budgets.errors import StoreError

# fmt: off
NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "ocfs2",
    "orangefs", "panfs", "pvfs2", "smb", "smb2", "smb3", "smbfs", "wekafs",
    "fuse.beegfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys",
    "fuse.juicefs", "fuse.lustre", "fuse.mount-s3", "fuse.rclone", "fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs",
})
# fmt: on

MOUNTINFO = Path("/proc/self/mountinfo")


def mounted() -> str:
    """Read what is mounted; empty where the system does not say."""
    try:
        return MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def filesystem_of(path: Path, mountinfo: str) -> str:
    """Return the type of the file system that holds an absolute path, such as 'ext4' or 'nfs4'; '' when unknown."""
    best, kind = Path(), ""
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split(" ")
        if not separator or len(fields) < 5:
            continue
        mount = Path(_unescaped(fields[4]))
        # ≥: of two mounts on the same directory the later one covers the earlier.
        if path.is_relative_to(mount) and len(mount.parts) >= len(best.parts):
            best, kind = mount, right.split(" ")[0]
    return kind


def refuse_network(path: Path, mountinfo: str) -> None:
    """Raise StoreError when an absolute path lies on a network file system."""
    kind = filesystem_of(path, mountinfo)
    if kind in NETWORK:
        raise StoreError(
            f"{path} lies on a network file system ({kind}), where SQLite can lose data. "
            "Give a path on a local disk, or a PostgreSQL URL: --db postgresql://user@host/database"
        )


def _unescaped(field: str) -> str:
    """Undo the octal escapes of blanks, tabs, newlines and backslashes in a mount point."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
