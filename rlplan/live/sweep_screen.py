"""Draws the picture of a sweep: what it has spent, how its trials stand, what was decided last."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from planner.axes import format_axes
from planner.view import TrialState
from rlplan.reading.decisions import Decision
from rlplan.reading.sweep_picture import Money, Picture, TrialRow, sentence
from rlplan.reading.sweep_words import forecast_text, last_line, reached, remains, tally, time_of, with_error
from rlplan.wording.answers import SIZE
from rlplan.wording.numbers import UNKNOWN, aligned_hours, hours, probability
from rlplan.wording.screen import BLOCKS, PLAIN_BLOCKS, Canvas, Cells, Column, sparkline

if TYPE_CHECKING:
    from rich.text import Text

SHOWN_DECISIONS = 3
FEWEST_ROWS = 3  # of trials, before the decisions give way
WIDEST_BAR = 60


def screen(picture: Picture, canvas: Canvas, status: str = "") -> list["Text"]:
    """Return the lines of the screen, none wider and not more than the canvas holds.

    Of the trials it has all that find room, the most promising first.
    """
    top = [
        canvas.line(title(picture), "bold"),
        canvas.line(time_of(picture), "yellow" if picture.abandoned else "dim"),
        budget_bar(picture.money, canvas),
    ]
    foot = [canvas.line(status, "yellow")] if status else []
    decisions = [canvas.line(text, "" if i else "bold") for i, text in enumerate(decision_lines(picture))]
    answer = canvas.lines(sentence(picture.answer), "bold") if picture.answer else []
    below = [*_spaced(decisions), *_spaced(answer), *foot]
    if canvas.height is not None and canvas.height - len(top) - len(below) - 3 < FEWEST_ROWS:
        below = foot
    room = None if canvas.height is None else max(0, canvas.height - len(top) - len(below) - 2)  # blank line, heading
    return [*top, *_spaced(_trials(picture.trials, room, canvas)), *below][: canvas.height]


def title(picture: Picture) -> str:
    """Name a sweep and its state in one line."""
    scored = "" if picture.metric.startswith("mean") else f", scored by {picture.metric}"
    return f"{picture.sweep} of {picture.plan}: {picture.workload}{scored}, policy {picture.policy}, {picture.state}"


def chosen(trials: Sequence[TrialRow], rows: int) -> list[TrialRow]:
    """Return as many trials as there are rows: those that run and the most promising others, best first."""
    ranked = sorted(trials, key=lambda trial: trial.promise)
    first = [trial for trial in ranked if trial.state is TrialState.RUNNING]
    others = [trial for trial in ranked if trial.state is not TrialState.RUNNING]
    ids = {trial.id for trial in [*first, *others][:rows]}
    return [trial for trial in ranked if trial.id in ids]


def _spaced(lines: list["Text"]) -> list["Text"]:
    from rich.text import Text  # noqa: PLC0415

    return [Text(""), *lines] if lines else []


def _trials(trials: Sequence[TrialRow], room: int | None, canvas: Canvas) -> list["Text"]:
    if not trials or room == 0:
        return []
    if room is None or len(trials) <= room:
        return table(chosen(trials, len(trials)), canvas)
    shown = chosen(trials, room - 1)
    hidden = [trial for trial in trials if trial not in shown]
    return [*table(shown, canvas), canvas.line(f"and {len(hidden)} more: {tally(hidden)}", "dim")]


def budget_bar(money: Money, canvas: Canvas) -> "Text":
    """Draw what is spent, reserved and left as one bar, with the numbers beside it."""
    from rich.text import Text  # noqa: PLC0415

    used = f" ({aligned_hours(money.used_of_reserved_gpu_hours)} used)" if money.used_of_reserved_gpu_hours else ""
    reserved_text = f"{aligned_hours(money.reserved_gpu_hours)} reserved{used}, " if money.reserved_gpu_hours else ""
    total = hours(money.pilot_gpu_hours)
    label = f"{aligned_hours(money.spent)} spent, {reserved_text}{remains(money)} of {total} GPU-hours"
    width = min(WIDEST_BAR, canvas.width - len(label) - 2)
    if width < 6:
        return canvas.line(label)
    held = money.reserved_gpu_hours
    whole = max(money.pilot_gpu_hours, money.spent + held) or 1.0
    spent = round(money.spent / whole * width)
    reserved = min(width - spent, max(round(held / whole * width), 1 if held else 0))
    full, half, empty = "█▒─" if canvas.unicode else "#+-"
    return Text.assemble(
        (full * spent, "cyan"),
        (half * reserved, "yellow"),
        (empty * (width - spent - reserved), "dim"),
        f"  {label}",
        no_wrap=True,
    )


def decision_lines(picture: Picture, most: int = SHOWN_DECISIONS) -> list[str]:
    """Return the newest decisions below a heading."""
    last = picture.last_decisions[-most:]
    if not last:
        return []
    heading = f"The last {len(last)} of {picture.decisions:,} decisions" if picture.decisions > 1 else "One decision"
    digits = len(str(last[-1].number))
    cells = {trial.name: f"n = {trial.rollouts_per_prompt}, B = {trial.prompts_per_batch}" for trial in picture.trials}

    def render(each: Decision) -> str:
        # A reason that names the cell itself needs no name before it.
        names_trial = each.trial is None or cells.get(each.trial, each.trial) in each.reason
        return f"{each.number:>{digits}} {each.action}{'' if names_trial else f' {each.trial}'}: {each.reason}"

    return [heading, *map(render, last)]


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
class _Written:
    heading: str
    cells: list[str]
    lie: Cells

    @property
    def width(self) -> int:
        return max(map(len, (self.heading, *self.cells)))

    def filled(self) -> list[str]:
        """Return the heading and the cells, each as wide as the widest."""
        fill = str.rjust if self.lie is Cells.NUMBERS else str.ljust
        return [fill(cell, self.width) for cell in (self.heading, *self.cells)]


def table(trials: Sequence[TrialRow], canvas: Canvas) -> list["Text"]:
    """Return a heading and a row for each trial, in the order given, none wider than the canvas."""
    written = [
        _Written(each.heading, [canvas.spelled(str(each.written(trial))) for trial in trials], each.cells)
        for each in _columns(trials, wide=canvas.width >= NAMES_FROM)
        if each.shown
    ]
    columns, drawn, gap = _fitted(written, canvas.width)
    blocks = BLOCKS if canvas.unicode else PLAIN_BLOCKS
    for column in columns:
        if column.heading == SCORES:
            lines = (sparkline([score.score for score in trial.scores], drawn, blocks) for trial in trials)
            column.cells = [line.ljust(drawn) for line in lines]
    rows = zip(*(column.filled() for column in columns), strict=True)
    styles = ["bold", *(STYLES.get(trial.state, "") for trial in trials)]
    return [canvas.line((" " * gap).join(row).rstrip(), style) for row, style in zip(rows, styles, strict=True)]


def _columns(trials: Sequence[TrialRow], *, wide: bool) -> Sequence[Column[TrialRow]]:
    cells = Counter((trial.rollouts_per_prompt, trial.prompts_per_batch, trial.axes) for trial in trials)
    seeds = max(cells.values(), default=0) > 1  # n, B and the further axes alone do not say which trial it is
    axes = any(trial.axes for trial in trials)
    return (
        Column("trial", attrgetter("name"), Cells.NAMES, shown=wide),
        Column("state", attrgetter("state.value"), Cells.NAMES),
        *SIZE[:2],
        Column("with", lambda trial: format_axes(trial.axes), Cells.NAMES, shown=axes and not wide),
        Column("seed", attrgetter("seed"), shown=seeds and not wide),
        Column("step", reached),
        Column(SCORES, lambda _: "", Cells.NAMES),
        Column("score", lambda trial: with_error(trial.last) if wide else _score(trial)),
        Column("at target", forecast_text),
        Column("P(best)", lambda row: probability(row.forecast.probability_best if row.forecast else None)),
        Column("GPU-h", lambda row: aligned_hours(row.gpu_hours_spent) if row.gpu_hours_spent else UNKNOWN),
        Column("remarks", _remarks, Cells.NAMES, shown=wide),
    )


def _score(trial: TrialRow) -> str:
    return f"{trial.last.score:.3f}" if trial.last else UNKNOWN


def _fitted(columns: list[_Written], width: int) -> tuple[list[_Written], int, int]:
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


def _remarks(trial: TrialRow) -> str:
    remarks = [trial.forecast.verdict] if trial.forecast and trial.state is not TrialState.FAILED else []
    if trial.attempt > 1:
        remarks.append(f"attempt {trial.attempt}")
    if trial.failure_tail and trial.state is TrialState.FAILED:
        remarks.append(last_line(trial.failure_tail))
    return ", ".join(remarks)
