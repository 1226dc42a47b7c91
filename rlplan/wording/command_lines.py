"""Commands as they are typed in this folder, with this database; names that flags and what prints agree on."""

import os
import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

DEFAULT_DATABASE = "rlplan.db"
ACTIONS = ("start", "continue", "prune", "finish", "propose", "stop", "retry", "recovered")  # of decisions


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class FileFormat(StrEnum):
    """How a table is written into a file."""

    CSV = "csv"
    JSON = "json"


def database_at(db: str | Path | None = None) -> str:
    """Return the path or URL that is given, else that of the environment, else rlplan.db in the working directory."""
    return os.environ.get("RLPLAN_DB") or DEFAULT_DATABASE if db is None else str(db)


COMMENT = "  # "
SECRET = "***"  # what stands for a password in the place of a database


def command(verb: str, name: str, database: str) -> str:
    """Return a command about a sweep or a plan; one that would hold a secret says where that goes."""
    return with_database(f"rlplan {verb} {name}".rstrip(), database)


def typed_here(location: str) -> str:
    """Return the place of a file, or of a database, as it is typed in this folder."""
    place, here = Path(location), Path.cwd()
    return str(place.relative_to(here)) if place.is_relative_to(here) else location


def with_database(line: str, database: str) -> str:
    """Return a command with the flag that names its database, unless it is the usual one, or would tell a secret."""
    if database == DEFAULT_DATABASE:
        return line
    if SECRET in database:
        return f"{line}{COMMENT}with RLPLAN_DB set"
    if "://" in database:
        from planner.store.engine import masked  # noqa: PLC0415 (imports SQLAlchemy, which a path needs not)

        if masked(database) != database:
            return f"{line}{COMMENT}with RLPLAN_DB set"
    return f"{line} --db {shlex.quote(database)}"


def wrapped_command(arguments: Sequence[str], width: int) -> list[str]:
    """Break a command between flags so that it can be pasted; what is longer than a line stays whole."""
    parts: list[str] = []
    for argument in arguments:
        word = shlex.quote(argument)
        if parts and (not argument.startswith("-") or parts == ["rlplan"]):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {part}")
    return lines
