"""Reads what `--learn-from` names: tables of recorded runs, files of experience, databases of sweeps, and sweeps."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from sqlalchemy import select

from budgets.errors import InputError, NotFoundError
from planner.experience.experience import Experience
from planner.experience.extracting import FEWEST, experience_of_runs
from planner.experience.plain import ALLOWED, read_document
from planner.pooling.priors import NONE
from planner.replaying.reading import read_recorded
from planner.store import open_store
from planner.store.schema import Sweep
from rlplan.actions.configuring import absent
from rlplan.reading.recommend_reading import stored
from runner.sweep.learnt import left_behind, tells

BELIEVES: Final = "rlplan"  # the policy whose decisions rest on beliefs, which sources inform
SQLITE: Final = b"SQLite format 3"
BEGINNING: Final = 64  # bytes by which a file is told to be of one kind or another


def require_learner(policy: str, named: Sequence[str]) -> None:
    """Refuse sources beside a policy that believes nothing."""
    if policy != BELIEVES and named and NONE not in named:
        raise InputError(
            f"--learn-from {named[0]}: {policy} decides by scores alone and cannot learn from earlier runs; leave it "
            f"out, or take --policy {BELIEVES}"
        )


def learnt_from(
    named: Sequence[str], *, apart_from: Path | None = None, database: str | None = None
) -> tuple[Experience, ...]:
    """Return the experience of every source that is named; none for "none", and for no name at all.

    Args:
        named: files, sweeps of the database, or "none" alone.
        apart_from: the table that is played over; what it says of itself would be no experience.
        database: where a name that is no file is a sweep.
    """
    if NONE in named:
        if len(named) > 1:
            others = ", ".join(name for name in named if name != NONE)
            raise InputError(f"--learn-from none is given beside {others}: leave out the one or the other")
        return ()
    sweeps = [name for name in named if database is not None and not Path(name).expanduser().is_file()]
    files = [name for name in named if name not in sweeps]
    paths = [Path(name).expanduser() for name in files]
    for name, path in zip(files, paths, strict=True):
        if not path.is_file():
            raise InputError(f"--learn-from {name}: there is no such file; give {ALLOWED}")
        if apart_from is not None and apart_from.exists() and path.samefile(apart_from):
            raise InputError(
                f"--learn-from {name} is the table that is replayed: it would know the answer; leave it out"
            )
    found = tuple(each for path in paths for each in _read(path))
    for name in sweeps:
        if (place := absent(str(database))) is not None:
            raise InputError(f"--learn-from {name}: there is no such file, and no database {place}; give {ALLOWED}")
        try:
            found += (experience_in(str(database), name),)
        except NotFoundError as error:
            raise InputError(f"--learn-from {name}: there is no such file, and {error}; give {ALLOWED}") from None
    ((name, times),) = Counter(each.name for each in found).most_common(1) or (("", 0),)
    if times > 1:
        raise InputError(f"--learn-from: '{name}' is given twice, and would count twice; leave one of them out")
    return found


def experience_in(database: str, sweep: str | None) -> Experience:
    """Return what a sweep, by default the newest, has learnt so far."""
    with open_store(database, read_only=True) as store:
        return left_behind(stored(store, sweep).board)


def _every_experience_in(database: str) -> tuple[Experience, ...]:
    """Return what each sweep of a database has learnt, but for those with too few curves to learn anything."""
    with open_store(database, read_only=True) as store:
        with store.read() as session:
            names = list(session.scalars(select(Sweep.name).order_by(Sweep.id)))
        boards = [stored(store, name).board for name in names]
    found = tuple(left_behind(board) for board in boards if tells(board))
    if not found:
        raise NotFoundError(
            f"'{database}' has no sweep with scores of {FEWEST} configurations or more ({len(names)} sweeps in all): "
            "there is nothing to learn from; give another database, or a table of recorded runs"
        )
    return found


def _read(path: Path) -> tuple[Experience, ...]:
    """Return what a file holds, each named by the file, and by its sweep where there are several."""
    with path.open("rb") as file:
        start = file.read(BEGINNING)
    if start.startswith(SQLITE):
        found = _every_experience_in(str(path))
    elif start.lstrip().startswith(b"{"):
        try:
            found = read_document(path.read_text(encoding="utf-8"), str(path))
        except UnicodeDecodeError as error:
            raise InputError(f"--learn-from {path} is not UTF-8 text ({error.reason}): give {ALLOWED}") from None
    else:
        read = read_recorded(path)
        found = (experience_of_runs(str(path), read.recorded, read.about),)
    if len(found) == 1:
        return (replace(found[0], name=str(path)),)
    return tuple(replace(each, name=f"{path}:{each.name}") for each in found)
