"""`rlplan watch`: follow any run by its log, and warn when it goes wrong or has nothing left to win."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.commands import options
from rlplan.commands.options import plain
from rlplan.wording.formats import Format


def watch(
    run: Annotated[Path, typer.Argument(help="A log, a table or a folder that `rlplan fit` reads.")],
    x: options.XColumnOption = None,
    y: options.YColumnOption = None,
    by: options.ByColumnOption = None,
    percent: options.PercentOption = False,
    answers: options.AnswersOption = None,
    end: Annotated[float | None, plain("--end", "Where the run is to end, in x: what is left to win is told.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Read what is there, and end.")] = False,
    every: Annotated[float, plain("--every", "Seconds between two looks.")] = 10.0,
    format: options.FormatOption = Format.TABLE,
) -> int:
    """Follow a run: a line a validation, or JSON lines. Exit code 5 on a warning, at which it ends.

    Example: rlplan watch runs/verl.log --answers 2000 --end 400
    """
    asked = dict(locals())
    from rlplan.actions.watching import WatchRequest, followed  # noqa: PLC0415
    from rlplan.printing.watch_output import print_watched  # noqa: PLC0415

    return print_watched(followed(WatchRequest.of(asked)), format)
