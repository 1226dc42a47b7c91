"""`rlplan export`: what a sweep has measured and decided, as files for other tools."""

from typing import Annotated

import typer

from rlplan.commands.completing import sort_keys, sweeps
from rlplan.commands.options import DatabaseOption
from rlplan.wording.formats import DEFAULT_DATABASE, FileFormat


def export(
    out: Annotated[str, typer.Argument(help="A file, or a folder for all tables, or - for stdout.")],
    sweep: Annotated[
        str | None, typer.Option(metavar="<name>", help="The newest without it.", autocompletion=sweeps)
    ] = None,
    what: Annotated[
        str | None,
        typer.Option(
            metavar="<table>",
            help="points, trials, segments, decisions, ranking, fits or all; points for a file, all for a folder.",
            autocompletion=sort_keys("points", "trials", "segments", "decisions", "ranking", "fits", "all"),
        ),
    ] = None,
    purpose: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="replay", help="Points as that command reads them.", autocompletion=sort_keys("replay")
        ),
    ] = None,
    format: Annotated[
        FileFormat | None, typer.Option("--format", help="Otherwise as the file's name ends, or CSV.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Write what a sweep has measured, decided and concluded as CSV, JSON or Parquet.

    Example: rlplan export runs.csv --for replay
    """
    from rlplan.printing.export_output import ExportRequest  # noqa: PLC0415
    from rlplan.printing.export_output import export as write  # noqa: PLC0415

    write(db, ExportRequest(out, sweep, what, format, purpose, force))
