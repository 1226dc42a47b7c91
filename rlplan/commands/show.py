"""`rlplan show`: everything about one trial, sweep or plan."""

from typing import Annotated

import typer

from rlplan.commands.completing import sweeps, trials_plans_and_sweeps
from rlplan.commands.options import DatabaseOption, FormatOption
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def show(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[TRIAL|SWEEP|PLAN]",
            help="Its name, or the beginning of a trial's; the newest sweep without it.",
            autocompletion=trials_plans_and_sweeps,
        ),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(metavar="<name>", help="The sweep of the trial; else the newest with it.", autocompletion=sweeps),
    ] = None,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show one trial with its curve, money, states, decisions and how to train it on; or one sweep, or one plan.

    Example: rlplan show n16-B32-s0 --sweep sweep-1
    """
    from rlplan.printing.show_output import print_shown  # noqa: PLC0415

    print_shown(db, name, sweep, format)
