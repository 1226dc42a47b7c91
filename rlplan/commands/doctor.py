"""`rlplan doctor`: what this machine can run, what is missing, and how to get it."""

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
