"""`rlplan watch`: follow any run by its log, and warn when it goes wrong or has nothing left to win."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.commands.options import FormatOption, plain, whole
from rlplan.wording.formats import Format


def watch(
    run: Annotated[Path, typer.Argument(help="A log, a table or a folder that `rlplan fit` reads.")],
    x: Annotated[str | None, typer.Option(metavar="<column>", help="The compute; guessed without this.")] = None,
    y: Annotated[str | None, typer.Option(metavar="<column>", help="The score; guessed without this.")] = None,
    by: Annotated[str | None, typer.Option(metavar="<column>", help="What tells a file's curves apart.")] = None,
    percent: Annotated[bool, typer.Option("--percent", help="Scores are percentages: divide them by 100.")] = False,
    answers: Annotated[
        int | None, whole("--answers", "Answers behind each score; its binomial error is then known.")
    ] = None,
    end: Annotated[float | None, plain("--end", "Where the run is to end, in x: what is left to win is told.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Read what is there, and end.")] = False,
    every: Annotated[float, plain("--every", "Seconds between two looks.")] = 10.0,
    format: FormatOption = Format.TABLE,
) -> int:
    """Follow a run: a line a validation, or JSON lines. Exit code 5 on a warning, at which it ends.

    Example: rlplan watch runs/verl.log --answers 2000 --end 400
    """
    asked = dict(locals())
    from rlplan.actions.watching import WatchRequest, followed  # noqa: PLC0415
    from rlplan.printing.watch_output import print_watched  # noqa: PLC0415

    return print_watched(followed(WatchRequest.of(asked)), format)
