"""Which database is meant when none is named, as for the commands."""

import os
from pathlib import Path

from rlplan.wording.formats import DEFAULT_DATABASE

VARIABLE = "RLPLAN_DB"


def database_at(db: str | Path | None) -> str:
    """Return the path or URL that is given, else that of the environment, else rlplan.db in the working directory."""
    return os.environ.get(VARIABLE) or DEFAULT_DATABASE if db is None else str(db)
