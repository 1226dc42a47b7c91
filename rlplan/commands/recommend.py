"""`rlplan recommend`: what to spend the rest of the budget on, and how sure that is."""

from typing import Annotated

import typer

from rlplan.commands.options import DatabaseOption, FormatOption, gpu_hours
from rlplan.commands.resume import SweepArgument
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def recommend(
    sweep: SweepArgument = None,
    budget: Annotated[
        str | None,
        typer.Option(metavar="<gpu-hours>", help="As if this were all there is, pilots and final run together."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="<gpu-hours>", help="Another final run than the plan's.")
    ] = None,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> None:
    """Say which allocation to run in full, how sure that is, and the command that runs it; it only reads.

    Example: rlplan recommend sweep-1 --target 2000
    """
    from rlplan.printing.recommend_output import print_recommendation  # noqa: PLC0415

    print_recommendation(db, sweep, gpu_hours(budget), gpu_hours(target, "target"), format)
