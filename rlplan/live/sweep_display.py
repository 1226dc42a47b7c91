"""What a person sees on stderr of a sweep under way: a live screen at a terminal, one line per event elsewhere."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.view import FINAL_POLICY
from rlplan.printing.sweep_screen import screen, title
from rlplan.reading.sweep_picture import Picture
from rlplan.wording.draw import Canvas
from rlplan.wording.numbers import hours
from rlplan.wording.terminal import live_console, tell

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

STOPPING = "stopping: updates under way end and are saved; Ctrl-C again ends at once"
READY = "getting ready"
STDERR = 2
ECHO_COLUMNS = 4  # free at the right: a terminal's own ^C there must not begin a new line


class Lines:
    """One plain line for each event, for a log or a pipe; the first comes with the first picture.

    All but `stopping` are called from one thread at a time.
    """

    def __init__(self) -> None:
        self._begun = False
        self._troubled = False

    def open(self) -> None:
        """Show that the sweep is being made ready."""

    def show(self, picture: Picture, news: Sequence[str]) -> None:
        """Show how the sweep stands, and what has happened since the last time."""
        self._troubled = False
        if not self._begun:
            self._begun = True
            run = "the final run" if picture.policy == FINAL_POLICY else "pilots"
            tell(f"{title(picture)}, {hours(picture.money.pilot_gpu_hours)} GPU-hours for {run}")
        for line in news:
            tell(line)

    def trouble(self, reason: str) -> None:
        """Say once that the database cannot be read; what was shown last stays."""
        if not self._troubled:
            tell(f"the database cannot be read now, the sweep goes on: {reason}")
        self._troubled = True

    def stopping(self) -> None:
        """Show that an interrupt was heard: past Python's buffers, which a signal handler must not enter again."""
        os.write(STDERR, f"{STOPPING}\n".encode())

    def close(self) -> None:
        """Leave the terminal as it was."""


class Terminal(Lines):
    """A screen that is drawn over itself and goes away in the end."""

    def __init__(self, console: "Console") -> None:
        """Draw on a console that is a terminal."""
        super().__init__()
        from rich.live import Live  # noqa: PLC0415

        self._console = console
        self._picture: Picture | None = None
        self._status = READY
        self._stopping = False
        self._live = Live(console=console, get_renderable=self.render, refresh_per_second=4, transient=True)

    def open(self) -> None:
        """Start drawing."""
        self._live.start(refresh=True)

    def show(self, picture: Picture, news: Sequence[str]) -> None:
        """Take the picture; it is drawn with the next refresh."""
        self._picture, self._status = picture, ""

    def trouble(self, reason: str) -> None:
        """Say so below the last picture."""
        self._status = f"the database cannot be read now: {reason}"

    def stopping(self) -> None:
        """Say so with the next refresh."""
        self._stopping = True

    def close(self) -> None:
        """Take the screen away."""
        self._live.stop()

    def render(self) -> "RenderableType":
        """Return the screen as it is now, for the terminal's size of now."""
        from rich.console import Group  # noqa: PLC0415

        width, height = self._console.size
        # A terminal's own ^C must not begin a new line, nor the last line scroll the screen.
        canvas = Canvas(max(1, width - ECHO_COLUMNS), max(1, height - 1), self._console.encoding.startswith("utf"))
        status = STOPPING if self._stopping else self._status
        if self._picture is None:
            return canvas.line(status, "yellow")
        return Group(*screen(self._picture, canvas, status))


def choose_display() -> Lines:
    """Return the live screen at a terminal that can draw it, lines anywhere else."""
    console = live_console()
    return Lines() if console is None else Terminal(console)
