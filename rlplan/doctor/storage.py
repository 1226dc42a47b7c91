"""The database that `--db` names: whether it can be used, and how much room there is beside it."""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import func, select

from budgets.errors import NotFoundError, RlplanError, StoreError, StoreUnavailableError
from planner.store import open_store
from planner.store.engine import filesystem_of, locate, masked
from planner.store.opening import VERSION
from planner.store.schema import Sweep
from rlplan.doctor.finding import Finding, bad, ok
from rlplan.doctor.machine import check_disk
from rlplan.wording.numbers import plural

ANSWER_SECONDS = 3.0
ANOTHER = "give another path or address with --db"


def check_storage(database: str) -> Iterator[Finding]:
    """Say whether sweeps can be stored in a database, which is not changed, and whether its disk has room."""
    try:
        place = locate(database)
    except StoreError as error:
        driver = f"{sys.executable} -m pip install 'rlplan[postgres]'"
        yield bad("database", masked(database), str(error), driver if "PostgreSQL driver" in str(error) else ANOTHER)
        return
    if isinstance(place, Path):
        yield _obstacle(place) or _answer(database, str(place))
        if place.parent.exists():
            yield check_disk(place.parent)
    else:
        # A server that is not there can keep a connection waiting for minutes.
        hasty = place.update_query_dict({"connect_timeout": f"{ANSWER_SECONDS:g}"}).set(drivername="postgresql")
        shown = masked(place.set(drivername="postgresql").render_as_string())
        yield _answer(hasty.render_as_string(hide_password=False), shown)


def _obstacle(path: Path) -> Finding | None:
    """Find why no SQLite database can be at a path."""
    folder = path.parent
    if obstacle := filesystem_of(path.resolve()).obstacle:
        remedy = "give a path on a local disk, or --db postgresql://user@host/database"
        return bad("database", str(path), f"it is on {obstacle}", remedy)
    if not folder.exists():
        return bad("database", str(path), "its directory does not exist", f"mkdir -p {shlex.quote(str(folder))}")
    if not os.access(folder, os.W_OK | os.X_OK) or (path.is_file() and not os.access(path, os.R_OK | os.W_OK)):
        why = "this user may not write there: SQLite needs the directory too, for the files beside its own"
        remedy = f"chmod u+w {shlex.quote(str(folder))}, or give another path with --db"
        return bad("database", str(path), why, remedy)
    return None


def _answer(database: str, shown: str) -> Finding:
    """Open a database to read."""
    try:
        with open_store(database, read_only=True, lock_timeout_seconds=ANSWER_SECONDS) as store:
            with store.read() as session:
                sweeps = session.scalar(select(func.count()).select_from(Sweep)) or 0
            return ok("database", f"{shown}, version {VERSION}, writable, {plural(sweeps, 'sweep')}")
    except NotFoundError:
        return ok("database", f"{shown} is not there yet; `rlplan propose` makes it")
    except StoreUnavailableError as error:
        return bad(
            "database",
            shown,
            str(error).replace(masked(database), shown),
            f"see that it is up and lets you in, or {ANOTHER}",
        )
    except RlplanError as error:
        return bad("database", shown, str(error), ANOTHER)
