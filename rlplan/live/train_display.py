"""What a person sees on stderr while a run trains: a live panel at a terminal, one line per validation elsewhere."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rlplan.actions.train_history import History
from rlplan.actions.train_request import Run
from rlplan.actions.training import Display
from rlplan.live.train_panel import Panel, title
from rlplan.live.train_view import Pace, metric
from rlplan.printing.train_output import score_of
from rlplan.wording.terminal import live_console, tell
from runner.ports.backend import Point

if TYPE_CHECKING:
    from rich.console import Console

STOPPING = "stopping after the update under way; once more stops at once"
STDERR = 2


class Lines:
    """One plain line for each validation, for a log or a pipe."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._steps = 0

    def opening(self, run: Run, folder: Path) -> None:
        """Say what is trained."""
        self._steps = run.update_steps
        self.note(title(run, folder))

    def began(self, run: Run, history: History) -> None:
        """Do nothing: the first line comes with the first score."""

    def point(self, point: Point) -> None:
        """Write a line if the point has a score."""
        self._pace.add(point)
        if point.score is None:
            return
        parts = [
            f"step {point.optimizer_step}/{self._steps}",
            f"{point.rollouts:,} rollouts",
            f"score {score_of(point)}",
        ]
        if point.optimizer_step:
            parts.append(f"pass rate {metric(point, 'pass_rate', '{:.3f}')}")
        if speed := self._pace.rollouts_per_second:
            parts.append(f"{speed:,.0f} rollouts/s")
        self.note(", ".join(parts))

    def note(self, text: str) -> None:
        """Write a line."""
        tell(text)

    def stopping(self) -> None:
        """Write past Python's buffers, which a signal handler must not enter a second time."""
        os.write(STDERR, f"{STOPPING}\n".encode())

    def close(self) -> None:
        """Do nothing."""


class Terminal:
    """A panel that is drawn over itself and goes away in the end."""

    def __init__(self, console: "Console") -> None:
        """Draw on a console that is a terminal."""
        from rich.live import Live  # noqa: PLC0415

        self._console = console
        self._panel = Panel(console.width, unicode=console.encoding.startswith("utf"))
        self._live = Live(console=console, get_renderable=self._panel.render, refresh_per_second=4, transient=True)

    def opening(self, run: Run, folder: Path) -> None:
        """Start drawing."""
        self._panel.opening(run, folder)
        self._live.start(refresh=True)

    def began(self, run: Run, history: History) -> None:
        """Show the scores that a resumed run has already."""
        self._panel.began(history)

    def point(self, point: Point) -> None:
        """Take the point; it is drawn with the next refresh."""
        self._panel.point(point)
        if self._panel.status != STOPPING:
            self._panel.status = ""

    def note(self, text: str) -> None:
        """Write a line above the panel."""
        self._console.print(text, style="yellow", soft_wrap=True)

    def stopping(self) -> None:
        """Say so with the next refresh."""
        self._panel.status = STOPPING

    def close(self) -> None:
        """Take the panel away."""
        self._live.stop()


def choose_display() -> Display:
    """Return the panel at a terminal that can draw it, lines anywhere else."""
    console = live_console()
    return Lines() if console is None else Terminal(console)
