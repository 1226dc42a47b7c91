"""Prints data on stdout: tables without the padding that is a nuisance in a file, JSON, CSV."""

import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from rlplan.wording.file_writing import write_csv
from rlplan.wording.terminal import Canvas, capital, harmless

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@dataclass(frozen=True, slots=True)
class Unbroken:
    """Lines that stay as they are, whatever the width: a command that is cut cannot be pasted."""

    lines: Sequence[str]


Part = Union["RenderableType", Unbroken]


def print_drawn(draw: Callable[[Canvas], Iterable[Part]]) -> None:
    """Write what is drawn for stdout as it is."""
    from rlplan.wording.harmless_console import HarmlessConsole  # noqa: PLC0415

    console = HarmlessConsole(highlight=False, markup=False)
    # It is as long as it takes.
    canvas = Canvas(console.width, unicode=console.encoding.startswith("utf"))
    sys.stdout.write(text_of(console, draw(canvas)))


def drawn(draw: Callable[[Canvas], Iterable[Part]], width: int) -> str:
    """Return what is drawn as text of that width."""
    from rlplan.wording.harmless_console import HarmlessConsole  # noqa: PLC0415

    console = HarmlessConsole(width=width, color_system=None, highlight=False, markup=False)
    return text_of(console, draw(Canvas(width)))


def text_of(console: "Console", parts: Iterable[Part]) -> str:
    """Draw parts as text, without the blanks at the ends of their lines."""
    return "".join(_text(console, part) for part in parts)


def how_to_run(command: Sequence[str] | None, note: str, canvas: Canvas) -> Iterator[Part]:
    """Return the parts of a command, where there is one, and of what is to be known of it."""
    if command is not None:
        yield Unbroken(wrapped_command(command, canvas.width))
    yield from canvas.lines(f"{capital(note)}.", "dim")


def _text(console: "Console", part: Part) -> str:
    if isinstance(part, Unbroken):  # not through the console, which cuts at its width
        lines = [harmless(line) for line in part.lines]
    else:
        with console.capture() as captured:
            console.print(part)
        lines = captured.get().splitlines()
    return "".join(f"{line.rstrip(' ')}\n" for line in lines)


def wrapped_command(arguments: Sequence[str], width: int) -> list[str]:
    """Break a command between flags so that it can be pasted; what is longer than a line stays whole."""
    parts: list[str] = []
    for argument in arguments:
        word = shlex.quote(argument)
        if parts and (not argument.startswith("-") or parts == ["rlplan"]):
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" {part}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {part}")
    return lines


def print_json(document: Mapping[str, Any]) -> None:
    """Write one JSON document."""
    json.dump(document, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows under a heading, which is there without any row too."""
    write_csv(sys.stdout, columns, rows)
