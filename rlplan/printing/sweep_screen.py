"""Draws the picture of a sweep: what it has spent, how its trials stand, what was decided last."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from planner.trials import TrialState
from rlplan.printing.sweep_table import table
from rlplan.reading.decisions import Decision
from rlplan.reading.sweep_picture import Money, Picture, TrialRow
from rlplan.reading.sweep_words import sentence, tally, time_of
from rlplan.wording.canvas import Canvas
from rlplan.wording.numbers import aligned_hours, hours

if TYPE_CHECKING:
    from rich.text import Text

SHOWN_DECISIONS = 3
FEWEST_ROWS = 3  # of trials, before the decisions give way
WIDEST_BAR = 60


def screen(
    picture: Picture, canvas: Canvas, status: str = "", listed: Sequence[TrialRow] | None = None
) -> list["Text"]:
    """Return the lines of the screen, none wider and not more than the canvas holds.

    `listed` are the trials to show, in that order; without it all that find room, the most promising first.
    """
    top = [
        canvas.line(title(picture), "bold"),
        canvas.line(time_of(picture), "yellow" if picture.abandoned else "dim"),
        _budget(picture.money, canvas),
    ]
    foot = [canvas.line(status, "yellow")] if status else []
    decisions = [canvas.line(text, "" if i else "bold") for i, text in enumerate(_decisions(picture))]
    answer = canvas.lines(sentence(picture.answer), "bold") if picture.answer else []
    below = [*_spaced(decisions), *_spaced(answer), *foot]
    if canvas.height is not None and canvas.height - len(top) - len(below) - 3 < FEWEST_ROWS:
        below = foot
    room = None if canvas.height is None else max(0, canvas.height - len(top) - len(below) - 2)  # blank line, heading
    trials = _trials(picture.trials, room, canvas) if listed is None else table(listed, canvas) if listed else []
    return [*top, *_spaced(trials), *below][: canvas.height]


def title(picture: Picture) -> str:
    """Name a sweep and its state in one line."""
    scored = "" if picture.metric.startswith("mean") else f", scored by {picture.metric}"
    return f"{picture.sweep} of {picture.plan}: {picture.workload}{scored}, policy {picture.policy}, {picture.state}"


def money_line(money: Money) -> str:
    """Say in one line where the pilots' GPU-hours are."""
    reserved = f"{aligned_hours(money.reserved)} reserved, " if money.reserved else ""
    total = hours(money.pilot_gpu_hours)
    return f"{aligned_hours(money.spent)} spent, {reserved}{aligned_hours(money.left)} left of {total} GPU-hours"


def chosen(trials: Sequence[TrialRow], rows: int) -> list[TrialRow]:
    """Return as many trials as there are rows: those that run and the most promising others, best first."""
    ranked = sorted(trials, key=lambda trial: trial.promise)
    first = [trial for trial in ranked if trial.state is TrialState.RUNNING]
    others = [trial for trial in ranked if trial.state is not TrialState.RUNNING]
    kept = {trial.id for trial in [*first, *others][:rows]}
    return [trial for trial in ranked if trial.id in kept]


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


def _budget(money: Money, canvas: Canvas) -> "Text":
    """Draw what is spent, reserved and left as one bar, with the numbers beside it."""
    from rich.text import Text  # noqa: PLC0415

    said = money_line(money)
    width = min(WIDEST_BAR, canvas.width - len(said) - 2)
    if width < 6:
        return canvas.line(said)
    whole = max(money.pilot_gpu_hours, money.spent + money.reserved) or 1.0
    spent = round(money.spent / whole * width)
    reserved = min(width - spent, max(round(money.reserved / whole * width), 1 if money.reserved else 0))
    full, half, empty = "█▒─" if canvas.unicode else "#+-"
    return Text.assemble(
        (full * spent, "cyan"),
        (half * reserved, "yellow"),
        (empty * (width - spent - reserved), "dim"),
        f"  {said}",
        no_wrap=True,
    )


def _decisions(picture: Picture) -> list[str]:
    last = picture.last_decisions[-SHOWN_DECISIONS:]
    if not last:
        return []
    heading = f"Last of {picture.decisions:,} decisions" if picture.decisions > 1 else "One decision"
    digits = len(str(last[-1].number))
    cells = {trial.name: f"n={trial.rollouts_per_prompt}, B={trial.prompts_per_batch}" for trial in picture.trials}

    def told(each: Decision) -> str:
        # A reason that names the cell itself needs no name before it.
        named = each.trial is None or cells.get(each.trial, each.trial) in each.reason
        return f"{each.number:>{digits}} {each.action}{'' if named else f' {each.trial}'}: {each.reason}"

    return [heading, *map(told, last)]
