"""File systems: which of them hold an SQLite database, and whether machines share it.

SQLite needs POSIX locks. Across machines it cannot use a write-ahead log, whose index is memory of one machine; its
rollback journal works where the locks of one machine hold on all (https://sqlite.org/wal.html, lockingv3.html).
"""

from dataclasses import dataclass
from pathlib import Path

import psutil

# Their locks hold on every machine: NFS 4, NFS 3 with its lock daemon, Lustre's default since 2.13, GPFS, CephFS, …
LOCKED_BY_ALL = frozenset({
    *("ceph", "fuse.ceph", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.juicefs", "glusterfs", "gpfs", "lustre"),
    *("nfs", "nfs4", "wekafs"),
})  # fmt: skip
# The others have none, or (BeeGFS, AFS, SMB, FUSE without forwarding) by default such as hold on one machine alone.
NETWORK = LOCKED_BY_ALL | {
    *("9p", "afs", "beegfs", "cifs", "davfs", "ocfs2", "orangefs", "panfs", "pvfs2", "smb", "smb2", "smb3", "smbfs"),
    *("fuse.beegfs", "fuse.davfs2", "fuse.gcsfuse", "fuse.goofys", "fuse.lustre", "fuse.mount-s3", "fuse.rclone"),
    *("fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs"),
}
# Options of a mount that keep its locks on the machine.
LOCAL_LOCKS = frozenset({"nolock", "local_lock=all", "local_lock=posix", "localflock", "noflock"})


@dataclass(frozen=True, slots=True)
class FileSystem:
    """What holds a path: its type, such as 'ext4' or 'nfs4', '' when unknown, and the options of its mount."""

    kind: str = ""
    options: frozenset[str] = frozenset()

    @property
    def shared(self) -> bool:
        """Whether other machines may have it mounted."""
        return self.kind in NETWORK

    @property
    def obstacle(self) -> str | None:
        """Why SQLite could lose data there; None where it does not."""
        if not self.shared:
            return None
        local = sorted(self.options & LOCAL_LOCKS)
        if local:
            return f"a network file system ({self.kind}) that is mounted with {local[0]}: locks hold on one machine"
        if self.kind not in LOCKED_BY_ALL:
            return f"a network file system ({self.kind}) whose locks may hold on one machine alone"
        return None


def filesystem_of(path: Path) -> FileSystem:
    """Return the file system that holds an absolute path."""
    try:
        mounts = [each for each in psutil.disk_partitions(all=True) if path.is_relative_to(each.mountpoint)]
    except OSError:  # the system does not tell
        return FileSystem()
    # Of two mounts on the same directory the later one covers the earlier.
    nearest = max(reversed(mounts), key=lambda each: len(Path(each.mountpoint).parts), default=None)
    return FileSystem() if nearest is None else FileSystem(nearest.fstype, frozenset(nearest.opts.split(",")))
