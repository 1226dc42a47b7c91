"""`rlplan report`: a sweep as one HTML file, to look at and to send."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.commands.options import DatabaseOption
from rlplan.commands.resume import SweepArgument
from rlplan.wording.formats import DEFAULT_DATABASE
from rlplan.wording.terminal import tell


def report(
    out: Annotated[Path, typer.Argument(help="The file to write, such as report.html; one that exists is replaced.")],
    sweep: SweepArgument = None,
    db: DatabaseOption = DEFAULT_DATABASE,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write one HTML file with the answer, the curves, the budget and every decision; it needs no network.

    Example: rlplan report report.html sweep-1
    """
    from rlplan.web.report import write_report  # noqa: PLC0415

    path = write_report(out, db, sweep)
    tell(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB): open it in any browser")
    if show:
        typer.launch(path.resolve().as_uri())
