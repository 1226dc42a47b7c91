"""A results database to read from: its plans and its sweeps."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from budgets.errors import StoreError
from planner.store import Store, open_store
from rlplan.answers.plan import Plan, stored_document
from rlplan.reading.sweeps import listed_plans, listed_sweeps
from rlplan.wording.arguments import arguments_named
from rlplan.wording.formats import database_at
from rlplan.wording.frames import PLANS, SWEEPS, Frame, Library, make_frame

if TYPE_CHECKING:
    from rlplan.api.sweep import Sweep


class Book:
    """The results in a database, for reading alone; made by `rlplan.open`, closed by `close` or a `with` block.

    Between two calls it holds no connection, so that a notebook that stays open for days is in nobody's way.
    """

    def __init__(self, database: str) -> None:
        """Read from the database at this path or URL."""
        self.database = database
        self.closed = False
        self._shown = "a database"  # until it has been read: a URL may hold a password

    def close(self) -> None:
        """Read no more; what was read already stays."""
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def plans(self, frame: Library | None = None) -> Frame:
        """Return a row for each plan, the newest first."""
        with self.reading() as store, store.read() as session:
            return make_frame(PLANS, listed_plans(session), frame)

    def sweeps(self, frame: Library | None = None) -> Frame:
        """Return a row for each sweep, the newest first."""
        with self.reading() as store, store.read() as session:
            rows = [
                {name: getattr(each, name, None) for name in SWEEPS} | {"gpu_hours_spent": each.spent_gpu_hours}
                for each in listed_sweeps(session, datetime.now(UTC))
            ]
            return make_frame(SWEEPS, rows, frame)

    def plan(self, name: str | None = None) -> Plan:
        """Return the plan of that name, by default the newest; NotFoundError when there is none."""
        with self.reading() as store:
            return Plan(self.database, stored_document(store.plan(name)))

    def sweep(self, name: str | None = None) -> "Sweep":
        """Return the sweep of that name, by default the newest, as it is now; NotFoundError when there is none."""
        from rlplan.api.sweep import Sweep  # noqa: PLC0415 (what it needs takes a second to import)

        return Sweep(self, name)

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """Lend the database for one look at it."""
        if self.closed:
            raise StoreError(f"the book of {self._shown} is closed: open it again with rlplan.open(…)")
        with arguments_named(), open_store(self.database, read_only=True) as store:
            self._shown = store.location
            yield store

    def __repr__(self) -> str:
        return f"<Book of {self._shown}{', closed' if self.closed else ''}>"


def open(db: str | Path | None = None) -> Book:
    """Open a results database for reading; nothing in it can be changed through it.

    Args:
        db: A path, or an SQLAlchemy URL; by default RLPLAN_DB, else rlplan.db in the working directory.

    Returns:
        The book, which is also a context manager.

    Raises:
        NotFoundError: There is no such database, or nothing is in it yet.
        StoreError: It cannot be used.

    Example:
        >>> with rlplan.open("rlplan.db") as book:
        ...     sweep = book.sweep()
        >>> sweep.name
        'sweep-1'
    """
    book = Book(database_at(db))
    with book.reading():  # refuses what cannot be read now rather than at the first question
        return book
