"""What a person sees on stderr while a run trains: a live panel at a terminal, one line per validation elsewhere."""

import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from budgets.hardware import SECONDS_PER_HOUR
from rlplan.actions.train_request import TrainingRun
from rlplan.actions.training import History, TrainDisplay
from rlplan.printing.train_output import score_of
from rlplan.wording.numbers import duration, steps
from rlplan.wording.sparkline import BLOCKS, PLAIN_BLOCKS, sparkline
from rlplan.wording.terminal import live_console, tell
from runner.ports.backend import Point

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

STOPPING = "stopping after the update under way; once more stops at once"
STDERR = 2
ECHO_COLUMNS = 4  # free at the right: a terminal's own ^C there must not begin a new line
BESIDE_SPARKLINE = 41
WINDOW = 20  # points over which the pace is taken


def choose_display() -> TrainDisplay:
    """Return the panel at a terminal that can draw it, lines anywhere else."""
    console = live_console()
    return TrainLines() if console is None else TrainTerminal(console)


class TrainLines(TrainDisplay):
    """One plain line for each validation, for a log or a pipe."""

    def __init__(self) -> None:
        self._pace = Pace()
        self._steps = 0

    def opening(self, run: TrainingRun, folder: Path) -> None:
        """Say what is trained."""
        self._steps = run.update_steps
        self.note(title(run, folder))

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


class TrainTerminal(TrainDisplay):
    """A panel that is drawn over itself and goes away in the end.

    It has four lines, and a fifth while there is something to say about the state of the run.
    """

    def __init__(self, console: "Console") -> None:
        """Draw on a console that is a terminal."""
        from rich.live import Live  # noqa: PLC0415

        self._console = console
        self._width = max(1, console.width - ECHO_COLUMNS)
        self._blocks = BLOCKS if console.encoding.startswith("utf") else PLAIN_BLOCKS
        self._pace = Pace()
        self._title = ""
        self._steps = 0
        self._newest: Point | None = None
        self._history = History()
        self._status = "getting ready"
        self._live = Live(console=console, get_renderable=self.render, refresh_per_second=4, transient=True)

    def opening(self, run: TrainingRun, folder: Path) -> None:
        """Start drawing."""
        self._title, self._steps = title(run, folder), run.update_steps
        self._live.start(refresh=True)

    def began(self, run: TrainingRun, history: History) -> None:
        """Show the scores that a resumed run has already."""
        self._history, self._newest = history, history.last
        self._status = "" if history.scored else "scoring the base model"

    def point(self, point: Point) -> None:
        """Take the point, which the history holds already; it is drawn with the next refresh."""
        self._pace.add(point)
        self._newest = point
        if self._status != STOPPING:
            self._status = ""

    def note(self, text: str) -> None:
        """Write a line above the panel."""
        self._console.print(text, style="yellow", soft_wrap=True)

    def stopping(self) -> None:
        """Say so with the next refresh."""
        self._status = STOPPING

    def close(self) -> None:
        """Take the panel away."""
        self._live.stop()

    def render(self) -> "RenderableType":
        """Return the panel as it is now."""
        from rich.console import Group  # noqa: PLC0415
        from rich.constrain import Constrain  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        def line(text: str, style: str = "") -> Text:
            return Text(text, style=style, no_wrap=True, overflow="ellipsis")

        status = [line(self._status, "yellow")] if self._status else []
        lines = (line(self._title, "bold"), self._progress(), line(self._scores()), line(self._update()), *status)
        return Constrain(Group(*lines), self._width)

    def _progress(self) -> "RenderableType":
        from rich.progress_bar import ProgressBar  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415

        step = self._newest.optimizer_step if self._newest else 0
        row = Table.grid(padding=(0, 1), expand=True)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True)
        counts = f"step {steps(step):>{len(steps(self._steps))}}/{steps(self._steps)}"
        row.add_row(ProgressBar(total=self._steps, completed=step), f"{counts}  {self._pace.left(self._steps):>7} left")
        return row

    def _scores(self) -> str:
        scored = self._history.scored
        if not scored:
            return "score      –"
        values = [point.score for point in scored if point.score is not None]
        drawn = sparkline(values, self._width - BESIDE_SPARKLINE, self._blocks)
        return f"score      {score_of(scored[-1])}  {drawn}  at step {steps(scored[-1].optimizer_step)}"

    def _update(self) -> str:
        newest, speed = self._newest, self._pace.rollouts_per_second
        return (
            f"pass rate  {metric(newest, 'pass_rate', '{:.3f}'):<5}  "
            f"entropy {metric(newest, 'entropy', '{:.3f}'):<5}  "
            f"truncated {metric(newest, 'truncated_share', '{:.1%}'):<6}  "
            f"{f'{speed:,.0f}' if speed else '–':>6} rollouts/s"
        )


class Pace:
    """The speed over the last points, validations included."""

    def __init__(self) -> None:
        self._recent: deque[Point] = deque(maxlen=WINDOW)

    def add(self, point: Point) -> None:
        """Take the newest point."""
        self._recent.append(point)

    @property
    def rollouts_per_second(self) -> float | None:
        """Rollouts generated for training, by the second; None before there are two points."""
        seconds = self._seconds()
        return (self._recent[-1].rollouts - self._recent[0].rollouts) / seconds if seconds else None

    def left(self, to_step: int) -> str:
        """Return the time that the remaining updates take."""
        seconds = self._seconds()
        if not seconds:
            return "–"
        steps = self._recent[-1].optimizer_step - self._recent[0].optimizer_step
        return duration(seconds / steps * (to_step - self._recent[-1].optimizer_step) / SECONDS_PER_HOUR)

    def _seconds(self) -> float:
        return self._recent[-1].seconds - self._recent[0].seconds if len(self._recent) > 1 else 0.0


def title(run: TrainingRun, folder: Path) -> str:
    """Name a run in one line."""
    trial = run.trial
    batch = str(trial.prompts_per_batch) if trial.growth is None else f"{trial.prompts_at(0)}→{trial.prompts_per_batch}"
    size = f"n {trial.rollouts_per_prompt} × B {batch}"
    return f"{Path(trial.task.name).stem}, recipe {trial.recipe.name}, {size}, {folder}"


def metric(point: Point | None, name: str, format: str) -> str:
    """Write a metric of an update, or a dash where there is none."""
    value = point.metrics.get(name) if point else None
    return format.format(value) if isinstance(value, int | float) else "–"
