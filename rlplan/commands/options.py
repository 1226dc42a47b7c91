"""Options that several commands share."""

import math
from typing import Annotated

import typer

from budgets.errors import InputError
from rlplan.commands.completing import models, policies, recipes
from rlplan.wording.formats import Format

FormatOption = Annotated[Format, typer.Option("--format", help="How to print the result.")]
DatabaseOption = Annotated[
    str, typer.Option("--db", envvar="RLPLAN_DB", help="The results database: a path, or an SQLAlchemy URL.")
]

# Of rows that are listed.
TopOption = Annotated[int | None, typer.Option(min=1, metavar="<int>", help="Only so many rows, from the top.")]
ReverseOption = Annotated[bool, typer.Option("--reverse", help="The other way round.")]

# Of what decides, in a sweep, a replay and a preview.
PolicyOption = Annotated[
    str,
    typer.Option(
        metavar="<name>",
        help="What decides: rlplan, full, random, median, asha or hyperband.",
        autocompletion=policies,
    ),
]


def number(text: str | None) -> int | float | str | None:
    """Read a number where there is one; what is none goes on as text, and the configuration's check explains it."""
    for kind in (int, float):
        try:
            return kind(text or "")
        except ValueError:
            continue
    return text


def one_name(argument: str | None, option: str | None, flag: str) -> str | None:
    """Return the name that was given as an argument or with a flag; both must not differ."""
    if argument is not None and option is not None and argument != option:
        raise InputError(f"'{argument}' and {flag} '{option}' are both given: leave one of them out")
    return argument if argument is not None else option


def names(text: str | None) -> list[str] | None:
    """Read names with commas between them."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def gpu_hours(text: str | None, what: str = "budget") -> float | None:
    """Read a flag's number of GPU-hours as a person may type it; thousands may be set off by commas or underscores."""
    if text is None:
        return None
    try:
        hours = float(text.strip().replace(",", "").replace("_", ""))
    except ValueError:
        hours = math.nan
    if not math.isfinite(hours) or hours <= 0:
        raise InputError(
            f"{what} '{text}' is not a number of GPU-hours above zero: write it out as a plain number, such as "
            f"--{what} 5000"
        )
    return hours


# Of what is compared beside n and B, for a plan and for a sweep that makes one.
RecipesOption = Annotated[
    str | None,
    typer.Option(metavar="<a>,<b>", help="Recipes to compare with each other.", autocompletion=recipes),
]
ModelsOption = Annotated[
    str | None,
    typer.Option(metavar="<a>,<b>", help="Base models to compare with each other.", autocompletion=models),
]

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
