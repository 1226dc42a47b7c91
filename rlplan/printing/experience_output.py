"""Writes what a sweep has learnt into a file that `--learn-from` reads, in any database's neighbourhood."""

import sys
from pathlib import Path

from planner.experience.plain import document
from rlplan.reading.experience_reading import experience_in
from rlplan.wording.file_writing import require_room, write_file
from rlplan.wording.terminal import tell

STDOUT = "-"


def export_experience(database: str, out: str, sweep: str | None, *, force: bool) -> None:
    """Write it to a file, or to stdout for -."""
    path = Path(out).expanduser()
    if out != STDOUT:
        require_room(path, force=force)
    experience = experience_in(database, sweep)
    text = document([experience])
    if out == STDOUT:
        sys.stdout.write(text)
        return
    write_file(path, text.encode(), force=force)
    tell(
        f"wrote what {experience.name} has learnt of {experience.configurations} configurations "
        f"({experience.curves} curves) to {out}"
    )
