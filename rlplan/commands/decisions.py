"""`rlplan decisions`: why a sweep did what it did."""

from typing import Annotated

import typer

from rlplan.commands.resume import SweepArgument
from rlplan.options import DEFAULT_DATABASE, DatabaseOption, Format, FormatOption


def decisions(
    sweep: SweepArgument = None,
    trial: Annotated[str | None, typer.Option(metavar="<name>", help="Only decisions about this trial.")] = None,
    last: Annotated[int | None, typer.Option(min=1, metavar="<int>", help="Only so many, the newest.")] = None,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> None:
    """List the decisions of a sweep, each with its reason; --format json adds the numbers it rested on.

    Example: rlplan decisions sweep-1 --last 20
    """
    from rlplan.sweep_decisions import print_decisions  # noqa: PLC0415

    print_decisions(db, sweep, trial, last, format)
