"""`rlplan status`: how a sweep stands, from any terminal."""

from typing import Annotated

import typer

from rlplan.commands.resume import SweepArgument
from rlplan.options import DEFAULT_DATABASE, DatabaseOption, Format, FormatOption


def status(
    sweep: SweepArgument = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow it until it rests; Ctrl-C leaves.")] = False,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> int:
    """Show how a sweep stands; it only reads, and never disturbs a running sweep.

    Example: rlplan status sweep-1 --watch
    """
    from rlplan.sweep_output import print_status, sweep_name  # noqa: PLC0415

    name = sweep_name(db, sweep)
    if watch:
        from rlplan.sweep_running import watch as follow  # noqa: PLC0415

        follow(db, name)
    return print_status(db, name, format)
