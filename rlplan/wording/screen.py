"""What an answer is drawn with on a terminal: lines, tables, progress, and what can be typed next, here."""

import re
import shlex
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from rlplan.wording.command_lines import COMMENT, DEFAULT_DATABASE, command, with_database, wrapped_command

if TYPE_CHECKING:
    from rich.console import Console, Group, RenderableType
    from rich.table import Table
    from rich.text import Text


NAME = re.compile(r"[nB] ?=|n\d")
Progress = Callable[[float], None]  # told how much is done


def live_console() -> "Console | None":
    """Return a console on stderr, or None when that is no terminal or one that cannot draw over itself."""
    if not sys.stderr.isatty():
        return None
    console = harmless_console(stderr=True)
    return None if console.is_dumb_terminal else console


def harmless_console(**options: Any) -> "Console":
    """Return a console whose control sequences are all Rich's own: texts with others are shown without them."""
    from rich.console import Console  # noqa: PLC0415

    class HarmlessConsole(Console):
        def render(self, *values: Any, **options: Any) -> Iterator[Any]:
            for segment in super().render(*values, **options):
                yield segment if segment.control else segment._replace(text=harmless(segment.text))

    return HarmlessConsole(highlight=False, markup=False, **options)


@contextmanager
def progress_shown(what: str, total: float) -> Iterator[Progress]:
    """Show how much of the total is done while the context lasts."""
    console = live_console()
    if console is None:
        yield lambda _done: None
        return
    from rich.progress import Progress as Bar  # noqa: PLC0415

    with Bar(console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def tell(text: str) -> None:
    """Write a line for people, beside the data, on stderr; a name in it that has more lines begins no new one."""
    print(harmless(text).replace("\n", "\\n"), file=sys.stderr, flush=True)  # noqa: T201


def capital(text: str) -> str:
    """Return a sentence with a capital at its beginning, unless that is a name, such as n = 8 or n8-B64-s0."""
    return text if NAME.match(text) else text[:1].upper() + text[1:]


def harmless(text: str) -> str:
    """Return a text without signs that a terminal obeys instead of showing them; ends of lines stay."""
    if text.isprintable():
        return text
    # Spaces of other widths are shown as one; the others have no width, and nothing in their place keeps the columns.
    blank = {sign: " " if sign == "\t" or unicodedata.category(sign) == "Zs" else "" for sign in set(text)}
    return "".join(sign if sign == "\n" or sign.isprintable() else blank[sign] for sign in text)


Part: TypeAlias = "RenderableType"
Row = TypeVar("Row")

SCREEN = 24  # lines of a terminal that nobody has made larger
PythonCalls = Callable[[str], str | None]  # for a command; None where Python has none
ROWS = 8  # of a table, where nothing else is asked for
FEWEST_ROWS = 4
EXPLAIN = "--explain"
# Blanks at which no line is broken: about a sign, and between a figure and its unit.
BOUND = re.compile(r" (?=[=±×] )|(?<= [=±×]) |(?<=\d) (?=%|(?:GPU-hours?|days?|GB|min|h|s)\b)")
NO_BREAK = "\N{NO-BREAK SPACE}"
_PLAIN = str.maketrans(
    {"–": "-", "±": "+-", "…": "...", "×": "x", "≤": "<=", "≥": ">=", "·": "*", "√": "sqrt", "α": "alpha"}
)


@dataclass(frozen=True, slots=True)
class Canvas:
    """What is drawn on."""

    width: int
    height: int | None = None  # lines; None for as many as it takes
    unicode: bool = True
    python: PythonCalls | None = None  # the call for a command, where next steps are to be calls

    def spelled(self, text: str) -> str:
        """Write on one line, with the signs that there are; a reason or a log may hold anything."""
        text = "".join(sign if sign.isprintable() else " " for sign in text)
        return text if self.unicode else text.translate(_PLAIN).encode("ascii", "replace").decode()

    def line(self, text: str, style: str = "") -> "Text":
        """Return a text as one line, which is cut at the width with a mark that it was."""
        from rich.text import Text  # noqa: PLC0415

        text = self.spelled(text)
        if len(text) > self.width:
            text = text[: self.width - 1] + ("…" if self.unicode else "~") if self.width > 0 else ""
        return Text(text, style=style, no_wrap=True)

    def lines(self, text: str, style: str = "") -> list["Text"]:
        """Return a text as lines that are broken between words."""
        bound = BOUND.sub(NO_BREAK, self.spelled(text))
        parts = textwrap.wrap(bound, self.width, break_on_hyphens=False)
        return [self.line(part.replace(NO_BREAK, " "), style) for part in parts]


def unbroken(lines: Sequence[str]) -> "Group":
    """Return lines that stay as they are, whatever the width: a command that is cut cannot be pasted."""
    from rich.console import Group  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    # A console that is given a text alone makes another of it, which it wraps.
    return Group(Text("\n".join(lines), no_wrap=True, overflow="ignore"))


class Cells(Enum):
    """How the cells of a column lie."""

    NUMBERS = "to the right and never broken"
    NAMES = "to the left and never broken"
    TEXTS = "to the left and broken between words"
    PATHS = "to the left and broken anywhere"


LEGIBLE = 20  # signs of a text on a line, below which a column that gives way is left out for it
NARROWEST = 6  # signs that are left of a line which can be broken anywhere
GAP = 2


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """What a column is called, how a row is written in it, and whether it is shown: always, or where there is room."""

    heading: str
    written: Callable[[Row], object]
    cells: Cells = Cells.NUMBERS
    shown: bool = True
    gives_way: bool = False


def listed(heading: str, lines: Sequence[str]) -> "Iterator[RenderableType]":
    """Return lines below a heading and a little to the right of it; nothing where there are none."""
    from rich.padding import Padding  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if lines:
        yield Text(f"\n{heading}", "bold")
        yield from (Padding(line, (0, 0, 0, 2), expand=False) for line in lines)


def shortened(text: str, signs: int) -> str:
    """Return a text of so many signs at most, cut between words with a mark that it was."""
    return textwrap.shorten(text, signs, placeholder=" …", break_on_hyphens=False)


def table_of(
    rows: Iterable[Row],
    columns: Sequence[Column[Row]],
    canvas: Canvas,
    *,
    dim: Callable[[Row], bool] = lambda _: False,
    headed: bool = True,
) -> "Table":
    """Return a table without lines; where there is no room, columns that give way are left out, the last first."""
    from rich.table import Table  # noqa: PLC0415

    rows = list(rows)
    written = {
        column: [canvas.spelled(str(cell)) for cell in (column.heading, *map(column.written, rows))]
        for column in columns
        if column.shown
    }
    for column in [column for column in reversed(written) if column.gives_way]:
        if _width(written, LEGIBLE) > canvas.width:
            del written[column]
    room = canvas.width - _width(written, 0)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1), show_header=headed)
    for column, (heading, *_) in written.items():
        table.add_column(
            heading,
            justify="right" if column.cells is Cells.NUMBERS else "left",
            no_wrap=room >= 0 and column.cells in (Cells.NUMBERS, Cells.NAMES),
            overflow="fold",
            max_width=NARROWEST + max(room, 0) if column.cells is Cells.PATHS else None,
        )
    for row, *cells in zip(rows, *(cells[1:] for cells in written.values()), strict=True):
        table.add_row(*cells, style="dim" if dim(row) else None)
    return table


def _width(written: Mapping[Column[Row], Sequence[str]], text: int) -> int:
    """Return the least width of a table whose texts get so many signs, and no word is broken."""
    from rich.cells import cell_len  # noqa: PLC0415

    width = GAP * (len(written) - 1)
    for column, cells in written.items():
        whole, word = (max(map(cell_len, parts)) for parts in (cells, " ".join(cells).split(" ")))
        width += {Cells.TEXTS: max(min(whole, text), word), Cells.PATHS: min(whole, NARROWEST)}.get(column.cells, whole)
    return width


@dataclass(frozen=True, slots=True)
class NextStep:
    """A command and what it does."""

    command: str
    does: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a command was called: its words, its database, and whether all of its answer is wanted."""

    words: tuple[str, ...]
    database: str = DEFAULT_DATABASE
    explain: bool = False

    def command(self, verb: str, name: str) -> str:
        """Return a command about a sweep or a plan as it has to be typed here."""
        return command(verb, name, self.database)

    def step(self, verb: str, name: str, does: str) -> NextStep:
        """Return such a command with what it does."""
        return NextStep(self.command(verb, name), does)

    def explained(self, does: str) -> NextStep:
        """Return the same command with all of its answer."""
        return self.with_flags(does, EXPLAIN)

    def with_flags(self, does: str, *flags: str) -> NextStep:
        """Return the same command with further flags."""
        words = [word for word in self.words if word != "--watch"]
        for number, word in reversed(list(enumerate(words))):
            if word == "--db" or word.startswith("--db="):  # it is added as it may be printed
                del words[number : number + 1 + (word == "--db")]
        return NextStep(with_database(shlex.join(["rlplan", *words, *flags]), self.database), does)

    def without(self, does: str, flag: str, *flags: str) -> NextStep:
        """Return the same command without a flag, and with others."""
        return replace(self, words=tuple(word for word in self.words if word != flag)).with_flags(does, *flags)


def next_steps(steps: Sequence[NextStep], canvas: Canvas) -> Iterator[Part]:
    """Return the last part of an answer; a command is broken between its flags alone, so that it can be pasted."""
    if canvas.python is not None:
        calls = ((canvas.python(step.command), step.does) for step in steps)
        steps = [NextStep(call, does) for call, does in calls if call is not None]
        if not steps:
            return
    yield ""
    yield canvas.line("Next", "bold")
    column = 2 + max(len(step.command) for step in steps) + 2
    beside = column + max(len(step.does) for step in steps) <= canvas.width  # else the commands have to do
    for step in steps:
        line, *comment = step.command.split(COMMENT)
        lines = (
            [step.command]
            if beside or canvas.python is not None
            else wrapped_command(shlex.split(line), canvas.width - 2)
        )
        lines[-1] = f"{lines[-1]:<{column - 2}}{step.does}" if beside else COMMENT.join([lines[-1], *comment])
        yield unbroken([f"  {line}" for line in lines])


def one_screen(
    above: Sequence[Part],
    rows_of: Callable[[int], Iterable[Part]],
    below: Sequence[Part],
    canvas: Canvas,
    number: int | None = None,
    most: int = ROWS,
    fewest: int = FEWEST_ROWS,
) -> Iterator[Part]:
    """Return an answer around rows, of which there are as many as are asked for, or as a screen has room for."""
    rows = number or most
    console = harmless_console(width=canvas.width)

    @cache
    def room(rows: int) -> int:
        return SCREEN - text_of(console, [*above, *rows_of(rows), *below]).count("\n")

    if not number and rows > fewest and room(rows) < 0:
        rows = max(fewest, rows + room(rows))  # as if each had one line
        while room(rows) > 0 and room(rows + 1) >= 0:
            rows += 1
        while room(rows) < 0 and rows > fewest:
            rows -= 1
    yield from (*above, *rows_of(rows), *below)


def print_drawn(draw: Callable[[Canvas], Iterable[Part]]) -> None:
    """Write what is drawn for stdout as it is."""
    console = harmless_console()
    # It is as long as it takes.
    canvas = Canvas(console.width, unicode=console.encoding.startswith("utf"))
    sys.stdout.write(text_of(console, draw(canvas)))


def drawn(
    draw: Callable[[Canvas], Iterable[Part]], width: int, python: Callable[[str], str | None] | None = None
) -> str:
    """Return what is drawn as text of that width."""
    return text_of(harmless_console(width=width, color_system=None), draw(Canvas(width, python=python)))


def text_of(console: "Console", parts: Iterable[Part]) -> str:
    """Draw parts as text, without the blanks at the ends of their lines."""
    with console.capture() as captured:
        for part in parts:
            console.print(part, crop=False)
    return "".join(f"{line.rstrip(' ')}\n" for line in captured.get().splitlines())


T = TypeVar("T")

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN_BLOCKS = "_.-~=+*#"  # for a terminal without Unicode
LEAST_SPAN = 0.1  # of scores: noise around a level is no mountain range


def sparkline(values: Sequence[float], width: int, blocks: str = BLOCKS) -> str:
    """Draw values from left to right, thinned to a width; the lowest block is the smallest of them."""
    shown = thinned(values, width)
    if not shown:
        return ""
    low = min(values)
    span = max(max(values) - low, LEAST_SPAN)
    return "".join(blocks[min(len(blocks) - 1, int((value - low) / span * len(blocks)))] for value in shown)


def thinned(values: Sequence[T], most: int) -> list[T]:
    """Return at most so many values, evenly spaced, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    if most < 2:
        return list(values[-1:]) if most == 1 else []
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]
