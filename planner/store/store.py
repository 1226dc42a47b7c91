"""The results database as the rest of rlplan sees it: one object, which lends sessions to read and to write in."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy.orm import Session

from budgets.errors import StoreError
from planner.store import sweeps
from planner.store.engine import Engines
from planner.store.failures import explained
from planner.store.schema import Candidate, CostRecord, Plan


class ReplacedError(StoreError):
    """The file of an open database was deleted, moved or replaced: what was stored now would be lost."""


class Store:
    """An open results database; made by `open_store`, closed by `close` or at the end of a `with` block."""

    def __init__(self, engines: Engines, *, read_only: bool) -> None:
        self._engines = engines
        self.read_only = read_only
        self.notices: list[str] = []
        self._file = engines.file()

    @property
    def location(self) -> str:
        """The database's path or URL as messages show it, without a password."""
        return self._engines.shown

    @property
    def address(self) -> str:
        """The database's path or URL for another process, password and all: for its environment, never to be shown."""
        path, url = self._engines.path, self._engines.writer.url
        return url.render_as_string(hide_password=False) if path is None else str(path)

    def close(self) -> None:
        """Close all connections, after what was written has reached the database's one file."""
        if not self.read_only:
            self._engines.fold()
        self._engines.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """Lend a session that sees one moment of the database and cannot change it."""
        with explained(self.location, self._engines.reader), Session(self._engines.reader) as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """Lend a session that holds the database's one write lock; it commits at the end, or undoes all on an error.

        `save_plan` takes the same lock itself: called inside the block it waits in vain.
        """
        if self.read_only:
            raise StoreError(f"{self.location} was opened for reading only; open it for writing to store something")
        self._require_in_place()
        with (
            explained(self.location, self._engines.reader),
            Session(self._engines.writer, expire_on_commit=False) as session,
            session.begin(),
        ):
            session.connection()  # takes the lock now, so that what is read below stays true
            yield session
            self._require_in_place()

    def _require_in_place(self) -> None:
        if self._file is None or self._engines.file() in (self._file, None):
            return
        raise ReplacedError(
            f"{self.location} is not the file any more that this process has opened: it was deleted, moved or replaced"
        )

    def rescue(self, at: datetime) -> Path:
        """Save the open database, whose file was deleted or replaced, beside where that was, and return the new file.

        Its write-ahead log is folded: one that stays behind would be taken for that of the file that lies there now.
        """
        assert self._engines.path is not None
        path = self._engines.path
        saved = path.with_name(f"{path.name}.rescued-{at:%Y%m%dT%H%M%S}")
        self._engines.save_as(saved)
        self._engines.fold()
        return saved

    def save_plan(self, plan: Plan, candidates: Sequence[Candidate], *, created_at: datetime) -> str:
        """Store a plan with its candidates and return the name it got, such as 'plan-1'."""
        with self.write() as session:
            return sweeps.save_plan(session, plan, candidates, created_at)

    def plan(self, name: str | None = None) -> Plan:
        """Return the plan of that name, or the newest, with its candidates in rank order."""
        with self.read() as session:
            return sweeps.plan_named(session, name)

    def cost_records(
        self,
        *,
        gpu: str | None = None,
        model: str | None = None,
        most: int | None = None,
        sweep: str | None = None,
    ) -> list[CostRecord]:
        """Return measured costs, oldest first, of one GPU, model or sweep or of all; of many about `most`."""
        with self.read() as session:
            return sweeps.cost_records(session, gpu, model, most, sweep)
