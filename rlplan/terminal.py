"""Whether there is a terminal on stderr that a live display can be drawn on."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def live_console() -> "Console | None":
    """Return a console on stderr, or None when that is no terminal or one that cannot draw over itself."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True, highlight=False, markup=False)
    return None if console.is_dumb_terminal else console
