"""The trials of a sweep as rows, fitted to a width."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planner.axes import said
from planner.trials import TrialState
from rlplan.reading.sweep_picture import TrialRow
from rlplan.reading.sweep_words import foretold, last_line, reached, with_error
from rlplan.wording.canvas import Canvas
from rlplan.wording.numbers import UNKNOWN, aligned_hours, probability
from rlplan.wording.sparkline import BLOCKS, PLAIN_BLOCKS, sparkline

if TYPE_CHECKING:
    from rich.text import Text

NAMES_FROM = 110  # columns from which names, errors of scores and remarks are shown
SPARKLINE = (6, 40)  # the narrowest that says something, and the widest that is needed
SCORES = "scores"
# What is given up first where there are too few columns.
EXPENDABLE = (SCORES, "GPU-h", "step", "score", "seed", "P(best)", "at target")
STYLES = {
    TrialState.RUNNING: "green",
    TrialState.FINISHED: "bold",
    TrialState.PLANNED: "dim",
    TrialState.PRUNED: "dim",
    TrialState.FAILED: "red",
    TrialState.LOST: "yellow",
}


@dataclass(slots=True)
class _Column:
    heading: str
    cells: list[str]
    left: bool = False  # else aligned to the right, as numbers are

    @property
    def width(self) -> int:
        return max(map(len, (self.heading, *self.cells)))

    def written(self) -> list[str]:
        """Return the heading and the cells, each as wide as the widest."""
        fill = str.ljust if self.left else str.rjust
        return [fill(cell, self.width) for cell in (self.heading, *self.cells)]


def table(trials: Sequence[TrialRow], canvas: Canvas) -> list["Text"]:
    """Return a heading and a row for each trial, in the order given, none wider than the canvas."""
    columns = _columns(trials, wide=canvas.width >= NAMES_FROM)
    for column in columns:
        column.cells = [canvas.spelled(cell) for cell in column.cells]
    columns, drawn, gap = _fitted(columns, canvas.width)
    blocks = BLOCKS if canvas.unicode else PLAIN_BLOCKS
    for column in columns:
        if column.heading == SCORES:
            lines = (sparkline([score.score for score in trial.scores], drawn, blocks) for trial in trials)
            column.cells = [line.ljust(drawn) for line in lines]
    rows = zip(*(column.written() for column in columns), strict=True)
    styles = ["bold", *(STYLES.get(trial.state, "") for trial in trials)]
    return [canvas.line((" " * gap).join(row).rstrip(), style) for row, style in zip(rows, styles, strict=True)]


def _columns(trials: Sequence[TrialRow], *, wide: bool) -> list[_Column]:
    names = [_Column("trial", [trial.name for trial in trials], left=True)] if wide else []
    remarks = [_Column("remarks", [_remarks(trial) for trial in trials], left=True)] if wide else []
    values = [said(trial.axes) for trial in trials]
    axes = [_Column("with", values, left=True)] if any(values) and not wide else []
    seeds = [] if wide or _told_apart(trials) else [_Column("seed", [str(trial.seed) for trial in trials])]
    scores = [with_error(t.last) if wide else f"{t.last.score:.3f}" if t.last else UNKNOWN for t in trials]
    chances = [probability(trial.forecast.probability_best if trial.forecast else None) for trial in trials]
    return [
        *names,
        _Column("state", [trial.state.value for trial in trials], left=True),
        _Column("n", [str(trial.rollouts_per_prompt) for trial in trials]),
        _Column("B", [str(trial.prompts_per_batch) for trial in trials]),
        *axes,
        *seeds,
        _Column("step", [reached(trial) for trial in trials]),
        _Column(SCORES, [""] * len(trials), left=True),
        _Column("score", scores),
        _Column("at target", [foretold(trial) for trial in trials]),
        _Column("P(best)", chances),
        _Column("GPU-h", [aligned_hours(t.gpu_hours_spent) if t.gpu_hours_spent else UNKNOWN for t in trials]),
        *remarks,
    ]


def _fitted(columns: list[_Column], width: int) -> tuple[list[_Column], int, int]:
    """Return the columns that fit, the width of the sparklines, and the gap between columns."""
    for given_up in ("", *EXPENDABLE):
        columns = [column for column in columns if column.heading != given_up]
        needed = sum(column.width for column in columns if column.heading != SCORES)
        drawn = any(column.heading == SCORES for column in columns)
        for gap in (2, 1):
            room = width - needed - gap * (len(columns) - 1)
            if room >= (SPARKLINE[0] if drawn else 0):
                return columns, min(room, SPARKLINE[1]), gap
    return columns, 0, 1


def _told_apart(trials: Sequence[TrialRow]) -> bool:
    """Whether n, B and the further axes alone say which trial it is."""
    cells = Counter((trial.rollouts_per_prompt, trial.prompts_per_batch, trial.axes) for trial in trials)
    return max(cells.values(), default=0) <= 1


def _remarks(trial: TrialRow) -> str:
    said = [trial.forecast.verdict] if trial.forecast and trial.state is not TrialState.FAILED else []
    if trial.attempt > 1:
        said.append(f"attempt {trial.attempt}")
    if trial.failure_tail and trial.state is TrialState.FAILED:
        said.append(last_line(trial.failure_tail))
    return ", ".join(said)
