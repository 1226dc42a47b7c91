"""What is written for people: whether it can be drawn live, and that no name or log in it steers their terminal."""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

NAME = re.compile(r"[nB] ?=|n\d")
# Blanks at which no line is broken: about a sign, and between a figure and its unit.
BOUND = re.compile(r" (?=[=±×] )|(?<= [=±×]) |(?<=\d) (?=%|(?:GPU-hours?|days?|GB|min|h|s)\b)")
NO_BREAK = "\N{NO-BREAK SPACE}"
Progress = Callable[[float], None]  # told how much is done


def live_console() -> "Console | None":
    """Return a console on stderr, or None when that is no terminal or one that cannot draw over itself."""
    if not sys.stderr.isatty():
        return None
    from rlplan.wording.harmless_console import HarmlessConsole  # noqa: PLC0415

    console = HarmlessConsole(stderr=True, highlight=False, markup=False)
    return None if console.is_dumb_terminal else console


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
    return "".join(_shown(sign) for sign in text)


def _shown(sign: str) -> str:
    if sign == "\n" or sign.isprintable():
        return sign
    # Spaces of other widths are shown as one; the others have no width, and nothing in their place keeps the columns.
    return " " if sign == "\t" or unicodedata.category(sign) == "Zs" else ""


_PLAIN = str.maketrans(
    {"–": "-", "±": "+-", "…": "...", "×": "x", "≤": "<=", "≥": ">=", "·": "*", "√": "sqrt", "α": "alpha"}
)


@dataclass(frozen=True, slots=True)
class Canvas:
    """What is drawn on."""

    width: int
    height: int | None = None  # lines; None for as many as it takes
    unicode: bool = True

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
        parts = wrap(bound, self.width, break_on_hyphens=False)
        return [self.line(part.replace(NO_BREAK, " "), style) for part in parts]
