"""`rlplan doctor` says what this machine can run, `init` writes a commented rlplan.toml, `mcp` serves an agent."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.requests.options import DatabaseOption, ExplainOption, FormatOption, invocation
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def doctor(
    context: typer.Context,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also try torch, transformers and Ray, which takes up to a minute.")
    ] = False,
    upgrade: Annotated[
        bool,
        typer.Option("--upgrade", help="Bring a database of an older rlplan up to date first, after a copy of it."),
    ] = False,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
    explain: ExplainOption = False,
) -> int:
    """Say what this machine can run, what is missing and how to get it; exits with 3 when no sweep can run.

    Example: rlplan doctor --deep
    """
    from rlplan.printing.doctor_output import print_examination, upgrade_database  # noqa: PLC0415

    if upgrade:
        upgrade_database(db)
    return print_examination(format, invocation(context, db, explain), deep=deep)


def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("rlplan.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a commented rlplan.toml, every key with its default or, where it has none, an example.

    Example: rlplan init && $EDITOR rlplan.toml && rlplan propose --budget 5000
    """
    from planner.config import template  # noqa: PLC0415
    from rlplan.wording.file_writing import write_file  # noqa: PLC0415

    write_file(path, template().encode(), force=force)
    typer.echo(
        f"Wrote {path}, every key commented out: '#' before a default, '##' before an example of a key without one.",
        err=True,
    )


def mcp(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Option("--folder", help="All that the agent may read and write.", exists=True, file_okay=False)
    ] = Path(),
    allow_runs: Annotated[
        bool, typer.Option("--allow-runs", help="Let it store plans, and run, pause and stop sweeps and final runs.")
    ] = False,
    db: DatabaseOption = DEFAULT_DATABASE,
) -> None:
    """Serve rlplan to a coding agent, as tools over stdin and stdout; it only reads.

    Example: rlplan mcp --allow-runs
    """
    from rlplan.agents.server import serve  # noqa: PLC0415

    serve(context.find_root().command, folder, db, runs=allow_runs)
