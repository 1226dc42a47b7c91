"""The panel that a run under way draws over itself: progress, scores, and what the last update did."""

from pathlib import Path
from typing import TYPE_CHECKING

from rlplan.actions.train_history import History
from rlplan.actions.train_request import Run
from rlplan.live.train_view import Pace, metric
from rlplan.printing.train_output import score_of
from rlplan.wording.numbers import steps
from rlplan.wording.sparkline import BLOCKS, PLAIN_BLOCKS, sparkline
from runner.ports.backend import Point

if TYPE_CHECKING:
    from rich.console import RenderableType

ECHO_COLUMNS = 4  # free at the right: a terminal's own ^C there must not begin a new line
BESIDE_SPARKLINE = 41


class Panel:
    """Four lines, and a fifth while there is something to say about the state of the run."""

    def __init__(self, width: int, *, unicode: bool) -> None:
        """Draw for a terminal of so many columns."""
        self._width = max(1, width - ECHO_COLUMNS)
        self._blocks = BLOCKS if unicode else PLAIN_BLOCKS
        self._pace = Pace()
        self._title = ""
        self._steps = 0
        self._newest: Point | None = None
        self._history = History()
        self.status = "getting ready"

    def opening(self, run: Run, folder: Path) -> None:
        """Take what does not change."""
        self._title, self._steps = title(run, folder), run.update_steps

    def began(self, history: History) -> None:
        """Take what a resumed run has shown already."""
        self._history, self._newest = history, history.last
        self.status = "" if history.scored else "scoring the base model"

    def point(self, point: Point) -> None:
        """Take a new point, which the history holds already."""
        self._pace.add(point)
        self._newest = point

    def render(self) -> "RenderableType":
        """Return the panel as it is now."""
        from rich.console import Group  # noqa: PLC0415
        from rich.constrain import Constrain  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        def line(text: str, style: str = "") -> Text:
            return Text(text, style=style, no_wrap=True, overflow="ellipsis")

        status = [line(self.status, "yellow")] if self.status else []
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


def title(run: Run, folder: Path) -> str:
    """Name a run in one line."""
    trial = run.trial
    batch = str(trial.prompts_per_batch) if trial.growth is None else f"{trial.prompts_at(0)}→{trial.prompts_per_batch}"
    size = f"n {trial.rollouts_per_prompt} × B {batch}"
    return f"{Path(trial.task.name).stem}, recipe {trial.recipe.name}, {size}, {folder}"
