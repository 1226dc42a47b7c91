"""`rlplan init` writes a commented rlplan.toml, `mcp` serves an agent."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.requests.options import DatabaseOption
from rlplan.wording.formats import DEFAULT_DATABASE
from rlplan.wording.terminal import tell


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
    tell(f"Wrote {path}: '#' stands before a default, '##' before an example.")
    tell("Change what you like; then: rlplan propose --budget 5000")


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
