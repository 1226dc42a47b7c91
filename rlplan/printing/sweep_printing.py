"""Prints data on stdout: tables without the padding that is a nuisance in a file, JSON, CSV."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlplan.wording.canvas import Canvas
from rlplan.wording.csv_writing import write_csv

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table


def tables_console() -> "Console":
    """Return the console that tables for stdout are drawn with."""
    from rlplan.wording.harmless_console import HarmlessConsole  # noqa: PLC0415

    return HarmlessConsole(highlight=False, markup=False)


def paper_of(console: "Console") -> Canvas:
    """Return a console's canvas; it is as long as it takes."""
    return Canvas(console.width, unicode=console.encoding.startswith("utf"))


def print_tables(console: "Console", parts: Iterable["RenderableType"]) -> None:
    """Write what was drawn."""
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    sys.stdout.write("".join(f"{line.rstrip(' ')}\n" for line in captured.get().splitlines()))


def plain_table(numbers: Sequence[str], texts: Sequence[str] = ()) -> "Table":
    """Return a table without lines: columns of numbers, and behind them columns of text."""
    from rich.table import Table  # noqa: PLC0415

    made = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    for heading in numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    for heading in texts:
        made.add_column(heading)
    return made


def print_json(document: Mapping[str, Any]) -> None:
    """Write one JSON document."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows under a heading, which is there without any row too."""
    write_csv(sys.stdout, columns, rows)
