"""The database as the dashboard reads it: never for writing, and open again by itself when it was away."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from budgets.errors import NotFoundError, RlplanError, StoreError, StoreUnavailableError
from planner.store import Store, open_store
from planner.store.engine import locate, masked

# A reader waits only while a writer folds its log back in; a visitor should sooner hear of a lock than wait for it.
LOCK_SECONDS = 2.0


# The device, the file, and when it was changed by other means than its log.
Identity = tuple[int, int, int]


class UnreadableError(StoreError):
    """What is stored cannot be made sense of."""


class AbsentError(StoreUnavailableError):
    """There is no database where it should be."""


class Source:
    """A database that may vanish, be replaced and come back while it is being shown."""

    def __init__(self, database: str) -> None:
        self.database = database
        self._place = locate(database)
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._file: Identity | None = None
        self.generation = 0  # counts the databases that were opened: what was read from one says nothing of the next

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Lend the open store; whatever goes wrong is raised as an RlplanError that says what to do."""
        try:
            yield self._opened()
        except RlplanError:
            raise
        except Exception as error:  # what a damaged row makes of the code that reads it, nobody has listed
            raise UnreadableError(
                f"{masked(self.database)} holds something that cannot be read ({type(error).__name__}). "
                f"Run: rlplan doctor --db {masked(self.database)}"
            ) from error

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._close()

    def _opened(self) -> Store:
        with self._lock:
            # A file that was deleted can still be read by who has it open, and would be shown for ever.
            file = self._identity()
            if self._store is None or file != self._file:
                self._close()
                try:
                    self._store = open_store(self.database, read_only=True, lock_timeout_seconds=LOCK_SECONDS)
                except NotFoundError as error:
                    raise AbsentError(str(error)) from error
                self._file = self._identity()
                self.generation += 1
            return self._store

    def _identity(self) -> Identity | None:
        if not isinstance(self._place, Path):
            return None
        try:
            found = self._place.stat()
        except FileNotFoundError:
            self._close()
            raise AbsentError(
                f"there is no results database at {self._place} now. It is shown as soon as there is one"
            ) from None
        except OSError as error:
            raise StoreError(f"{self._place} cannot be read: {error.strerror}") from error
        # While nobody writes through the log, a file that changes was copied over in place: pages that SQLite holds
        # in memory would be shown for ever. While somebody does, or with a journal in its place, it changes anyway.
        changed = 0 if self._is_written() else found.st_mtime_ns
        return found.st_dev, found.st_ino, changed

    def _is_written(self) -> bool:
        for beside in ("wal", "journal"):
            with suppress(OSError):
                if os.stat(f"{self._place}-{beside}").st_size > 0:
                    return True
        return False

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = self._file = None
