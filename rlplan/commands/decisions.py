"""`rlplan decisions`: why a sweep did what it did."""

from typing import Annotated

import typer

from rlplan.commands.completing import actions, trials
from rlplan.commands.options import DatabaseOption, FormatOption
from rlplan.commands.resume import SweepArgument
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def decisions(
    sweep: SweepArgument = None,
    trial: Annotated[
        str | None, typer.Option(metavar="<name>", help="Only decisions about this trial.", autocompletion=trials)
    ] = None,
    action: Annotated[
        str | None,
        typer.Option(metavar="<action>,…", help="Only these, such as start,prune.", autocompletion=actions),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="<time>", help="Only since then: 30m, 2h or 1d ago, or a time in UTC.")
    ] = None,
    last: Annotated[int | None, typer.Option(min=1, metavar="<int>", help="Only so many, the newest.")] = None,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> None:
    """List the decisions of a sweep, each with its reason; --format json adds the numbers it rested on.

    Example: rlplan decisions sweep-1 --action prune,stop --last 20
    """
    from rlplan.printing.sweep_decisions import DecisionChoice, print_decisions  # noqa: PLC0415

    print_decisions(db, sweep, DecisionChoice(trial, action, since, last), format)
