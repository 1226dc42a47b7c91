"""What is written for people: whether it can be drawn live, and that no name or log in it steers their terminal."""

import sys
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def live_console() -> "Console | None":
    """Return a console on stderr, or None when that is no terminal or one that cannot draw over itself."""
    if not sys.stderr.isatty():
        return None
    from rlplan.wording.harmless_console import HarmlessConsole  # noqa: PLC0415

    console = HarmlessConsole(stderr=True, highlight=False, markup=False)
    return None if console.is_dumb_terminal else console


def tell(text: str) -> None:
    """Write a line for people, beside the data, on stderr."""
    print(harmless(text), file=sys.stderr, flush=True)  # noqa: T201


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
