"""Connections: where a database lies, on which file system, and how it is read and written on SQLite and on PostgreSQL.

Each store has two engines. The reader's connections cannot write. The writer's transactions take the one write lock
at their start, so that what they read stays true until they commit: on SQLite with BEGIN IMMEDIATE, on PostgreSQL with
an advisory lock.
"""

import json
import math
import os
import re
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from budgets.errors import StoreError

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
        mounts = [
            partition for partition in psutil.disk_partitions(all=True) if path.is_relative_to(partition.mountpoint)
        ]
    except OSError:  # the system does not tell
        return FileSystem()
    # Of two mounts on the same directory the later one covers the earlier.
    nearest = max(reversed(mounts), key=lambda mount: len(Path(mount.mountpoint).parts), default=None)
    return FileSystem() if nearest is None else FileSystem(nearest.fstype, frozenset(nearest.opts.split(",")))


_PASSWORD = re.compile(r"(?<=://)([^:/@?]*):.*@")  # up to the last @: a password may have one too
_SECRET = re.compile(r"([?&][^=&]*(?:password|secret|token)[^=&]*=)[^&]*", re.IGNORECASE)
# A journal that is never deleted: another machine may believe for a minute that a file is not there, or has no length,
# and would read what a killed writer has left half written. SQLite opens this one and reads how it begins.
SHARED_JOURNAL = "PERSIST"
_FOLDING_MILLISECONDS = 500  # that a reader is waited for
_ADVISORY_LOCK = 0x726C706C616E  # "rlplan"; PostgreSQL keeps such locks per database


@dataclass(frozen=True)
class Engines:
    """The two ways into one database, and how messages name it."""

    reader: Engine
    writer: Engine
    shown: str
    path: Path | None = None  # of the SQLite file
    journal: str = ""  # its mode

    def file(self) -> tuple[int, int] | None:
        """Return what tells the SQLite file from any other of its name; (0, 0) where there is none."""
        if self.path is None:
            return None
        try:
            status = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return 0, 0
        except OSError:  # a storage that is away for a moment
            return None
        return status.st_dev, status.st_ino

    def save_as(self, path: Path) -> None:
        """Write what the open connection has of an SQLite database into another file, whatever became of its own."""
        with closing(self.writer.raw_connection()) as connection, closing(sqlite3.connect(path)) as copy:
            assert isinstance(connection.driver_connection, sqlite3.Connection)
            connection.driver_connection.backup(copy)

    def dispose(self) -> None:
        """Close all connections; the writer last, since only it can fold SQLite's write-ahead log back in."""
        self.reader.dispose()
        self.writer.dispose()

    def fold(self) -> None:
        """Bring what lies in SQLite's write-ahead log into the file, so that a copy of the file alone is complete.

        SQLite does so by itself only when its last connection closes, and never where that one may only read. A reader
        in the middle of a look holds a part of the log back; the next writer folds that.
        """
        if self.writer.dialect.name != "sqlite":
            return
        with suppress(sqlite3.Error, DBAPIError), closing(self.writer.raw_connection()) as connection:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout = {_FOLDING_MILLISECONDS}")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def locate(location: str | Path) -> Path | URL:
    """Tell a path of an SQLite file from a PostgreSQL URL."""
    text = str(location)
    if "://" not in text:
        return Path(os.path.expanduser(text)).absolute()  # unlike Path.expanduser, leaves an unknown ~user alone
    allowed = "allowed are a path, sqlite:///path and postgresql://user@host/database"
    try:
        url = make_url(text)
    except ValueError:  # of the port
        raise StoreError(f"--db '{masked(text)}' has a port that is no number; {allowed}") from None
    except ArgumentError as error:
        raise StoreError(f"--db: this is not a database URL; {allowed}") from error
    backend, _, driver = url.drivername.partition("+")
    if backend == "sqlite" and driver in ("", "pysqlite"):
        if not url.database or url.database == ":memory:":
            raise StoreError(f"--db '{masked(text)}' names no file; {allowed}")
        return Path(url.database).absolute()
    if backend in ("postgresql", "postgres") and driver in ("", "psycopg"):
        return url.set(drivername="postgresql+psycopg")
    raise StoreError(f"--db: '{url.drivername}' is not a database that rlplan works with; {allowed}")


def masked(location: str | Path) -> str:
    """Return how a location is named to people: without its password, nor a secret in its query."""
    text = _PASSWORD.sub(r"\1:***@", str(location), count=1)
    return _SECRET.sub(r"\1***", text) if "://" in text else text


def sqlite_engines(path: Path, lock_timeout_seconds: float, *, shared: bool = False) -> Engines:
    """Make the engines of an SQLite file, which other machines may open too where it is shared; opens nothing yet."""
    return Engines(
        _sqlite_engine(path, lock_timeout_seconds, writing=False, shared=shared),
        _sqlite_engine(path, lock_timeout_seconds, writing=True, shared=shared),
        str(path),
        path,
        SHARED_JOURNAL if shared else "WAL",
    )


def _mode(path: Path, *, writing: bool, shared: bool) -> str:
    """Return how a file is opened. SQLite makes files beside one that is read, where the folder lets it.

    Where it does not, and no writer has left a log beside it, the file is read as one that nobody writes. A reader of
    a shared file may have to undo what a writer that was killed has left half written.
    """
    if writing:
        return "rwc"
    if shared:
        return "rw" if os.access(path, os.W_OK, effective_ids=True) else "ro"
    still = not os.access(path.parent, os.W_OK, effective_ids=True) and not path.with_name(f"{path.name}-wal").exists()
    return "ro&immutable=1" if still else "ro"


def _sqlite_engine(path: Path, lock_timeout_seconds: float, *, writing: bool, shared: bool) -> Engine:
    def connect() -> sqlite3.Connection:
        mode = _mode(path, writing=writing, shared=shared)
        # Without an isolation level the driver starts no transactions of its own; the listener below starts them all.
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode={mode}",
            uri=True,
            timeout=lock_timeout_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if shared and mode != "ro":
                # Have it use the shared journal, also where the file came with a write-ahead log: alone on the file,
                # SQLite reads a log without the shared memory that machines cannot share.
                for mode_of in (
                    "locking_mode = EXCLUSIVE",
                    f"journal_mode = {SHARED_JOURNAL}",
                    "locking_mode = NORMAL",
                ):
                    connection.execute(f"PRAGMA {mode_of}")
                connection.execute("SELECT count(*) FROM sqlite_master")  # only at its next look it lets go of the lock
            connection.execute("PRAGMA foreign_keys = ON")
            # What is committed outlives a power cut: money that was spent is charged, a segment never handed out twice.
            connection.execute("PRAGMA synchronous = FULL")
            if not writing:
                connection.execute("PRAGMA query_only = ON")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    engine = create_engine(
        "sqlite://", creator=connect, poolclass=QueuePool, json_serializer=to_json, json_deserializer=from_json
    )
    begin = "BEGIN IMMEDIATE" if writing else "BEGIN"
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
    return engine


def postgres_engines(url: URL, lock_timeout_seconds: float) -> Engines:
    """Make the engines of a PostgreSQL database; nothing is opened yet."""
    name = masked(url.set(drivername="postgresql").render_as_string(hide_password=True))

    def lock(connection: Connection) -> None:
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {round(lock_timeout_seconds * 1000)}")
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")

    # One snapshot for a whole reading transaction, as on SQLite.
    reading = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    try:
        both: dict[str, Any] = {"pool_pre_ping": True, "json_serializer": to_json, "json_deserializer": from_json}
        reader, writer = create_engine(url, **both, execution_options=reading), create_engine(url, **both)
    except ModuleNotFoundError as error:
        raise StoreError(
            f"{name} needs the PostgreSQL driver, which is not installed. Run: pip install 'rlplan[postgres]'"
        ) from error
    event.listen(writer, "begin", lock)
    return Engines(reader, writer, name)


def _refused(number: str) -> float:
    raise ValueError(f"{number[:12]} is no finite number")


def _finite_float(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _refused(digits)


_JSON = json.JSONDecoder(parse_constant=_refused)
_FINITE_JSON = json.JSONDecoder(parse_constant=_refused, parse_int=_finite_float, parse_float=_finite_float)
_LARGE = re.compile(r"\d{300}|[eE]\+?\d{3}")  # what looks like a number that no float holds


def from_json(text: str | bytes) -> Any:
    """Read JSON; ValueError for what `to_json` never writes: a number that is not finite, or that no float holds."""
    text = text.decode() if isinstance(text, bytes) else text
    if _LARGE.search(text):
        _FINITE_JSON.decode(text)
    return _JSON.decode(text)


def to_json(value: Any) -> str:
    """Write JSON that every database accepts: numbers that are not finite become null."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
