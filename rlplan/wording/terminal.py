"""What is written for people: whether it can be drawn live, and that no name or log in it steers their terminal."""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

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
