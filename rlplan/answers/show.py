"""`rlplan show`: one trial, what it is, how it stands, its curve, its segments, and why it is where it is."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any

from planner.axes import format_axes
from planner.layering import flattened
from planner.percent import percent
from planner.trials import TrialState
from planner.view import ScorePoint
from rlplan.printing.score_chart import chart
from rlplan.reading.decisions import Decision
from rlplan.reading.show_reading import Sheet, sheet_of
from rlplan.reading.sweep_words import reached, with_error
from rlplan.requests.reading import ShowRequest
from rlplan.wording.draw import Canvas, Cells, Column, Invocation, Part, table_of
from rlplan.wording.numbers import UNKNOWN, aligned_hours, hours, interval, moment, probability, rate, steps

LAST = 6  # rows of a long list that a table shows; JSON has all
TAIL = 12  # lines of a failure's log
# Of the configuration: what the title says already, and what is not for reading.
UNSAID = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "seed", "recipe.", "simulation")


def answer(asked: ShowRequest) -> Sheet:
    """Return everything about the trial that a name stands for."""
    return sheet_of(asked.db, asked.trial, asked.sweep)


def parts(sheet: Sheet, _: Invocation, canvas: Canvas) -> Iterator[Part]:
    """Draw what it is, its curve and its newest rows."""
    for number, text in enumerate(_about(sheet)):
        yield from canvas.lines(text, "" if number else "bold")
    if lines := chart(sheet.row.scores, canvas):
        yield ""
        yield from (canvas.line(line, "cyan") for line in lines)
    lists: Iterable[tuple[str, Sequence[Any], Sequence[Column[Any]]]] = (
        ("Scores", sheet.row.scores, SCORES),
        ("Segments", sheet.segments, _segments(sheet)),
        ("States", sheet.moves, _moves(sheet)),
        ("Decisions", sheet.decisions, DECISIONS),
    )
    for heading, rows, columns in lists:
        if rows:
            yield ""
            yield canvas.line(f"{heading}{f', the last {LAST} of {len(rows):,}' if len(rows) > LAST else ''}", "bold")
            yield table_of(rows[-LAST:], columns, canvas)
    if tail := [line for line in (sheet.row.failure_tail or "").splitlines() if line.strip()]:
        yield ""
        yield canvas.line(f"What its log says last ({sheet.row.failure_class or 'error'})", "bold")
        for line in tail[-TAIL:]:
            yield from canvas.lines(line, "red")
    pairs = [f"{name} {value}" for name, value in settings(sheet.config)]
    if pairs or sheet.checkpoint:
        yield ""
        yield canvas.line("Settings", "bold")
        yield from canvas.lines(", ".join(pairs))
    if sheet.checkpoint:
        yield from canvas.lines(f"checkpoint {sheet.checkpoint}")


def settings(config: Any) -> list[tuple[str, Any]]:
    """Return what of a trial's configuration is worth reading, without what the title says and what is not set."""
    return [
        (name, value) for name, value in flattened(config) if value not in (None, False) and not name.startswith(UNSAID)
    ]


def _about(sheet: Sheet) -> Iterator[str]:
    """Say what the trial is, how it is trained, how it stands, and what it took."""
    row, picture = sheet.row, sheet.picture
    attempt = f", attempt {row.attempt}" if row.attempt > 1 else ""
    failed = f" ({row.failure_class})" if row.state is TrialState.FAILED and row.failure_class else ""
    yield f"{row.name} of {picture.sweep}, {picture.plan}: {row.state}{failed} at step {reached(row)}{attempt}"
    axes = f" with {format_axes(row.axes)}" if row.axes else ""
    yield (
        f"n = {row.rollouts_per_prompt}, B = {row.prompts_per_batch}{axes}, recipe {sheet.recipe}, learning rate "
        f"{rate(row.learning_rate)}, seed {row.seed}; {picture.workload}"
    )
    yield _outlook(sheet)
    total = picture.money.spent
    share = f", {percent(row.gpu_hours_spent / total)} of what the sweep has spent" if total else ""
    yield f"It has taken {hours(row.gpu_hours_spent)} GPU-hours{share}."


def _outlook(sheet: Sheet) -> str:
    last, forecast = sheet.row.last, sheet.row.forecast
    if last is None:
        return "No score yet."
    scored = f"Score {with_error(last)} ({sheet.picture.metric}) at {hours(last.gpu_hours)} GPU-hours"
    if forecast is None:
        return f"{scored}; no fit of its curve yet."
    expected = interval(forecast.mean, forecast.low, forecast.high)
    chance = "" if forecast.probability_best is None else f", P(best) {probability(forecast.probability_best)}"
    upto = "" if sheet.fitted_upto_gpu_hours is None else f" up to {hours(sheet.fitted_upto_gpu_hours)}"
    answer = sheet.picture.answer
    whose = "its run, by its newest fit," if answer is None else "its configuration"
    when = "" if forecast.at is None else f" ({'fitted' if answer is None else 'answered'} {moment(forecast.at)})"
    return (
        f"{scored}. At {hours(forecast.target_gpu_hours)} {whose} is expected to score {expected}, "
        f"{100 * forecast.level:g} % interval{chance}{when}. Its curve{upto}: {forecast.verdict.replace('-', ' ')}."
    )


SCORES: Sequence[Column[ScorePoint]] = (
    Column("step", lambda each: steps(each.step)),
    Column("GPU-hours", lambda each: aligned_hours(each.gpu_hours)),
    Column("score", with_error),
)
DECISIONS: Sequence[Column[Decision]] = (
    Column("#", attrgetter("number")),
    Column("time (UTC)", lambda each: _time(each.at), Cells.NAMES),
    Column("action", attrgetter("action"), Cells.NAMES),
    Column("why", attrgetter("reason"), Cells.TEXTS),
)


def _segments(sheet: Sheet) -> Sequence[Column[Any]]:
    again = any(each.attempt > 1 for each in sheet.segments)
    starts = any(each.start_up_gpu_hours is not None for each in sheet.segments)
    return (
        Column("#", attrgetter("number")),
        Column("attempt", attrgetter("attempt"), shown=again),
        Column("steps", lambda each: f"{steps(each.from_step)}–{steps(each.to_step)}"),
        Column("reserved", lambda each: aligned_hours(each.reserved_gpu_hours)),
        Column("charged", lambda each: aligned_hours(each.charged_gpu_hours)),
        Column("start-up", lambda each: aligned_hours(each.start_up_gpu_hours), shown=starts),
        Column("outcome", attrgetter("outcome"), Cells.NAMES),
        Column("worker", lambda each: each.worker or UNKNOWN, Cells.PATHS),
        Column("began (UTC)", lambda each: _time(each.started_at), Cells.NAMES),
    )


def _moves(sheet: Sheet) -> Sequence[Column[Any]]:
    decided = {each.reason: f"decision {each.number:,}" for each in sheet.decisions}
    return (
        Column("time (UTC)", lambda each: _time(each.at), Cells.NAMES),
        Column("state", attrgetter("to_state"), Cells.NAMES),
        Column("why", lambda each: decided.get(each.reason, each.reason), Cells.TEXTS),
    )


def _time(at: datetime) -> str:
    return f"{at:%m-%d %H:%M:%S}"
