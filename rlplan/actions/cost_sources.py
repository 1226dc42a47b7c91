"""Opens what `rlplan propose --learn-from` names: databases and sweeps whose measured steps price a plan."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from budgets.errors import InputError, NotFoundError
from planner.store import Store, open_store
from planner.store.sweeps import sweep_named
from rlplan.actions.calibrating import CostSource

NONE: Final = "none"  # nothing measured: prices are the prior's
ALLOWED: Final = "give a database, a sweep of this one, or none"
SQLITE: Final = b"SQLite format 3"


def cost_sources(named: Sequence[str] | None, store: Store | None, opened: ExitStack) -> list[CostSource]:
    """Return the databases and sweeps that are named, by default the store itself; none where it is not there yet.

    What is opened stays so until `opened` is closed.
    """
    if named is None:
        return [] if store is None else [CostSource(store)]
    if NONE in named:
        if others := [name for name in named if name != NONE]:
            raise InputError(f"--learn-from none is given beside {', '.join(others)}: leave out the one or the other")
        return []
    return list(_opened(dict.fromkeys(map(str, named)), store, opened))


def _opened(named: Iterable[str], store: Store | None, opened: ExitStack) -> Iterator[CostSource]:
    for name in named:
        path = Path(name).expanduser()
        if "://" in name:
            other = opened.enter_context(open_store(name, read_only=True))
            yield CostSource(other, name=other.location)
        elif path.is_file():
            with path.open("rb") as file:
                if file.read(len(SQLITE)) != SQLITE:
                    raise InputError(f"--learn-from {name} is no database: {ALLOWED}")
            yield CostSource(opened.enter_context(open_store(path, read_only=True)), name=path.name)
        elif store is None:
            raise InputError(f"--learn-from {name}: there is no such file, and no sweep in a new database; {ALLOWED}")
        else:
            try:
                with store.read() as session:
                    yield CostSource(store, sweep=sweep_named(session, name).name)
            except NotFoundError as error:
                raise InputError(f"--learn-from {name}: there is no such file, and {error}; {ALLOWED}") from None
