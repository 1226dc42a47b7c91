"""Options that several commands share."""

import math
from enum import StrEnum
from typing import Annotated

import typer

from budgets.errors import InputError


class Format(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


FormatOption = Annotated[Format, typer.Option("--format", help="How to print the result.")]
DatabaseOption = Annotated[
    str, typer.Option("--db", envvar="RLPLAN_DB", help="The results database: a path, or an SQLAlchemy URL.")
]
DEFAULT_DATABASE = "rlplan.db"


def number(text: str | None) -> int | float | str | None:
    """Read a number where there is one; what is none goes on as text, and the configuration's check explains it."""
    for kind in (int, float):
        try:
            return kind(text or "")
        except ValueError:
            continue
    return text


def gpu_hours(text: str | None) -> float | None:
    """Read a number of GPU-hours as a person may type it; thousands may be set off by commas or underscores."""
    if text is None:
        return None
    try:
        hours = float(text.strip().replace(",", "").replace("_", ""))
    except ValueError:
        hours = math.nan
    if not math.isfinite(hours) or hours <= 0:
        raise InputError(
            f"budget '{text}' is not a number of GPU-hours above zero: write it out as a plain number, such as "
            "--budget 5000"
        )
    return hours


# Of the training, for one run and for a sweep.
ModelOption = Annotated[
    str | None, typer.Option(metavar="<folder>", help="A local Hugging Face checkpoint, for your own problems.")
]
RewardOption = Annotated[
    str | None, typer.Option(metavar="math|exact|<package.module:name>", help="What scores your own problems.")
]
ValidationOption = Annotated[
    str | None, typer.Option(metavar="<file>", help="JSONL of validation problems; else some are held out.")
]
EngineOption = Annotated[str | None, typer.Option(metavar="torch|vllm", help="What generates the responses.")]
DeviceOption = Annotated[str | None, typer.Option(metavar="cpu|cuda", help="Where it runs.")]
WeightsOption = Annotated[
    str | None, typer.Option(metavar="float32|bfloat16", help="Format in forward passes; bfloat16 on a GPU.")
]
MicroBatchOption = Annotated[str | None, typer.Option(metavar="<int>", help="Tokens of one forward and backward pass.")]
