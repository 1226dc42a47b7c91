"""Where a sweep is at home: a mark in its folder names the sweep, the database that drives it, and where it lies.

A database that was copied knows the same sweep and names the same folder; one that was moved finds its folder
elsewhere, or not at all. What the mark says, and whether what it names is still there, tells these from each other.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from budgets.errors import CheckpointError, InputError, NotFoundError
from planner.disk import why
from planner.store.schema import Sweep
from runner.storage.place import Place
from runner.training.trial import replace_file

MARK = "sweep.json"
MOST_PARTS = 3  # at the end of a folder's path, by which it is looked for beside a database that was moved or copied


@dataclass(frozen=True, slots=True)
class Mark:
    """What a sweep's folder says of itself."""

    sweep: str
    token: str
    database: str
    folder: str


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that a sweep goes on in; the note tells what has been moved or copied."""

    folder: Path
    note: str | None = None


class AstrayError(NotFoundError):
    """A sweep's folder is gone or is another's; `fact` says so without what to do."""

    def __init__(self, fact: str, message: str) -> None:
        super().__init__(message)
        self.fact = fact


_MARK = TypeAdapter(Mark)


def token_of(sweep: Sweep) -> str:
    """Return what no other sweep has: its name and the microsecond of its birth, which every copy keeps."""
    return hashlib.sha256(f"{sweep.name} {sweep.created_at.isoformat()}".encode()).hexdigest()[:16]


def new_folder(above: Path, sweep: str, database: str) -> Path:
    """Make a folder that no other sweep has: one of that name in another database may have left its own there.

    What a kill has left of a sweep of this database that was never stored is taken.
    """
    folder, number = above / sweep, 1
    while True:
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            if not (isinstance(error, FileExistsError) and folder.exists()):
                reason = why(error, folder)
                raise InputError(
                    f"the sweep's folder '{folder}' cannot be made ({reason}): give another --folder"
                ) from error
            mark = mark_of(folder)
            if mark is not None and (mark.sweep, mark.database) == (sweep, database) and os.listdir(folder) == [MARK]:
                return folder
            number += 1
            folder = above / f"{sweep}-{number}"
        else:
            return folder


def mark_folder(folder: Path, sweep: Sweep, database: str) -> None:
    """Write into a folder whose it is from now on."""
    mark = Mark(sweep.name, token_of(sweep), database, str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / MARK, json.dumps(asdict(mark), indent=2) + "\n")
    except OSError as error:
        with suppress(OSError):  # what lies in it stays
            folder.rmdir()
        raise InputError(f"the sweep's folder {folder} cannot be written to ({why(error, folder)})") from error


def mark_storage(url: str, folder: Path, sweep: Sweep, database: str) -> None:
    """Write into the storage of a sweep whose it is from now on; InputError where another database drives it."""
    place, mark = Place(url), Mark(sweep.name, token_of(sweep), database, str(folder))
    place.require_usable()
    former: Mark | None = None
    with suppress(CheckpointError, ValueError):  # there is none yet
        former = _MARK.validate_json(place.read(MARK))
    if former is not None and not _same(former.database, database) and _may_be_there(former.database):
        raise InputError(
            f"{sweep.name} in {database}: the copies in {url} are those of {former.database}, of which this database "
            f"is one too: two would overwrite each other; go on with --db {former.database}"
        )
    try:
        place.write(MARK, json.dumps(asdict(mark)).encode())
    except CheckpointError as error:
        raise InputError(str(error)) from error


def mark_of(folder: Path) -> Mark | None:
    """Return the mark of a folder, None for one that has none that can be read."""
    with suppress(OSError, ValueError):
        return _MARK.validate_json((folder / MARK).read_bytes())
    return None


def require_mark(folder: Path) -> None:
    """Raise NotFoundError when a sweep that runs has lost its folder, or can write there no more."""
    try:
        (folder / MARK).stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(
            f"the sweep's folder {folder} was moved or removed while it ran: it was stopped, and its state is saved. "
            "Go on with `rlplan resume --folder PATH`, where PATH is the folder that was moved"
        ) from error
    except OSError as error:
        reason = why(error, folder)
    else:
        if os.access(folder, os.W_OK):
            return
        reason = "it is read-only, or this user may not write there"
    raise NotFoundError(
        f"the sweep's folder {folder} could not be used ({reason}): the sweep was stopped, and its state is saved. "
        "Mend that, then go on with `rlplan resume`"
    )


def home_of(sweep: Sweep, database: str, folder: str | Path | None = None) -> Home:
    """Return the folder of a stored sweep, and change nothing; AstrayError where it is gone or is another's.

    `database` is what the store calls its location, `given` the folder that the user has named.
    """
    if "folder" not in sweep.config:
        raise AstrayError("its settings name no folder", f"the settings of {sweep.name} name no folder")
    stored = Path(sweep.config["folder"])
    if folder is not None:
        return _named(sweep, database, stored, Path(os.path.abspath(Path(folder).expanduser())))
    objection = _objection(sweep, database, stored)
    if objection is None:
        former = mark_of(stored)
        moved = former is not None and not _same(former.database, database)
        return Home(stored, f"its database was {former.database} and is {database} now" if former and moved else None)
    for neighbour in _beside(stored, database):
        if mark_of(neighbour) is not None and _objection(sweep, database, neighbour) is None:
            if not stored.is_dir():
                return Home(neighbour, f"its folder was moved along with its database, from {stored} to {neighbour}")
            return Home(
                neighbour, f"its database was copied, and so was its folder: it goes on in {neighbour}, not {stored}"
            )
    return _fetched(sweep, stored, objection)


def _named(sweep: Sweep, database: str, stored: Path, folder: Path) -> Home:
    """Return the folder that was named, or that of the sweep in it, as `rlplan sweep --folder` has it."""
    below = (folder / name for name in (stored.name, sweep.name))
    place = next(
        (subfolder for subfolder in below if mark_of(folder) is None and mark_of(subfolder) is not None), folder
    )
    objection = _objection(sweep, database, place, named=True)
    if objection is not None:
        return _fetched(sweep, place, objection)
    return Home(place, None if _same(place, stored) else f"its folder was {stored} and is {place} now")


def _fetched(sweep: Sweep, folder: Path, objection: AstrayError) -> Home:
    """Return a folder that is not there where its trials can be fetched; else raise what is said against it."""
    storage = sweep.config.get("storage")
    if storage is None or folder.exists():
        raise objection
    return Home(folder, f"the folder {folder} was not there: its trials go on from their copies in {storage}")


def _objection(sweep: Sweep, database: str, folder: Path, *, named: bool = False) -> AstrayError | None:
    """Return why a folder is not that of a database's sweep; None when it is."""
    option = f"`rlplan resume {sweep.name} --folder PATH`"

    def astray(fact: str, remedy: str) -> AstrayError:
        return AstrayError(fact, f"{sweep.name} in {database}: {fact}. Nothing was run; {remedy}")

    if not folder.is_dir():
        return astray(
            f"the folder {folder} is not there",
            f"if it was moved, say where to with {option}; if it is lost, its checkpoints are too, and `rlplan sweep` "
            "begins anew",
        )
    mark = mark_of(folder)
    if mark is None:
        return astray(f"the folder {folder} has no {MARK} that says whose it is", f"name its own with {option}")
    if mark.token != token_of(sweep):
        fact = f"the folder {folder} is that of another, {mark.sweep} in {mark.database}"
        return astray(fact, f"name its own with {option}")
    if not _same(mark.folder, folder) or _same(mark.database, database):
        return None  # it was copied or moved here since, or is this database's own
    if not _may_be_there(mark.database) or (named and "://" in mark.database):
        return None
    return astray(
        f"the folder {folder} is driven by {mark.database}, of which this database is a copy",
        f"two would overwrite and charge each other; go on with --db {mark.database}, or copy the folder too and name "
        f"the copy with {option}",
    )


def _beside(stored: Path, database: str) -> Iterator[Path]:
    """Yield folders that lie beside a database as the stored one may have lain beside it, without that one itself."""
    if "://" in database:
        return
    for parts in range(1, min(MOST_PARTS, len(stored.parts) - 1) + 1):
        place = Path(database).parent.joinpath(*stored.parts[-parts:])
        if place.is_dir() and not _same(place, stored):
            yield place


def _same(one: str | Path, other: str | Path) -> bool:
    """Whether two paths lead to the same place, or two addresses are spelled alike."""
    return str(one) == str(other) or ("://" not in f"{one}{other}" and os.path.realpath(one) == os.path.realpath(other))


def _may_be_there(database: str) -> bool:
    """Whether another database may still be used; a server cannot be asked without its password."""
    return "://" in database or Path(database).exists()
