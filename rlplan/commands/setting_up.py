"""`rlplan doctor` says what this machine can run; `rlplan init` writes a commented rlplan.toml."""

from pathlib import Path
from typing import Annotated

import typer

from rlplan.commands.options import DatabaseOption, FormatOption
from rlplan.wording.formats import DEFAULT_DATABASE, Format


def doctor(
    deep: Annotated[
        bool, typer.Option("--deep", help="Also try torch, transformers and Ray, which takes up to a minute.")
    ] = False,
    db: DatabaseOption = DEFAULT_DATABASE,
    format: FormatOption = Format.TABLE,
) -> int:
    """Say what this machine can run, what is missing and how to get it; exits with 3 when no sweep can run.

    Example: rlplan doctor --deep
    """
    from rlplan.printing.doctor_output import print_examination  # noqa: PLC0415

    return print_examination(db, format, deep=deep)


def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("rlplan.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite a file that is there.")] = False,
) -> None:
    """Write a commented rlplan.toml, every key with its default or, where it has none, an example.

    Example: rlplan init && $EDITOR rlplan.toml && rlplan propose --budget 5000
    """
    from budgets.errors import ConfigError  # noqa: PLC0415
    from planner.config import template  # noqa: PLC0415

    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(template())
    except FileExistsError as error:
        raise ConfigError(f"{path} exists already; give another path, or --force to overwrite it") from error
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; give a path in a folder that you may write"
        ) from error
    typer.echo(
        f"Wrote {path}, every key commented out: '#' before a default, '##' before an example of a key without one.",
        err=True,
    )
