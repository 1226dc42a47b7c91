"""`rlplan rank`: the allocations in the order of what is expected of them."""

from typing import Annotated

import typer

from rlplan.commands.completing import plans_and_sweeps, ranked_states, sort_keys, sweeps
from rlplan.commands.options import DatabaseOption, FormatOption, ReverseOption, TopOption, one_name
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def rank(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[SWEEP|PLAN]", help="The newest sweep without it.", autocompletion=plans_and_sweeps),
    ] = None,
    sweep: Annotated[
        str | None, typer.Option(metavar="<name>", help="The same as the argument.", autocompletion=sweeps)
    ] = None,
    top: TopOption = None,
    status: Annotated[
        str | None,
        typer.Option(metavar="<state>,…", help="Only these, such as paused,finished.", autocompletion=ranked_states),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="<key>",
            help="rank, score, p-best, spent, cost, n, b or m.",
            autocompletion=sort_keys("rank", "score", "p-best", "spent", "cost", "n", "b", "m"),
        ),
    ] = None,
    reverse: ReverseOption = False,
    where: Annotated[
        str | None, typer.Option(metavar="<column>=<value>,…", help="Only these, such as n=16,recipe=dapo.")
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="What the database holds, at once, also of a sweep that goes on.")
    ] = False,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> None:
    """Rank the allocations: expected score with its interval, P(best), GPU-hours; of a sweep, or of a plan as proposed.

    Example: rlplan rank sweep-1 --top 5 --sort p-best
    """
    from rlplan.printing.rank_output import RankRequest, print_ranking  # noqa: PLC0415

    asked = one_name(name, sweep, "--sweep")
    print_ranking(db, RankRequest(asked, top, status, sort, reverse, where, stored), format)
