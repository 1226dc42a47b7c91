"""Names that flags and what prints agree on: how data is printed, what a decision can be, where the database is."""

import os
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
