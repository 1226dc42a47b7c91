"""Prints one trial: what it is, how it stands, its curve, its segments, and why it is where it is."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from operator import attrgetter
from typing import Any

from planner.axes import said
from planner.layering import flattened
from planner.store import open_store
from planner.trials import TrialState
from rlplan.reading.decisions import Decision
from rlplan.reading.points import Score
from rlplan.reading.show_reading import Sheet, named, read_sheet
from rlplan.reading.sweep_data import SCORE_COLUMNS, trial_data
from rlplan.reading.sweep_words import reached, with_error
from rlplan.wording.console import Part, print_csv, print_drawn, print_json
from rlplan.wording.formats import Format
from rlplan.wording.numbers import UNKNOWN, aligned_hours, hours, interval, moment, probability, steps
from rlplan.wording.sparkline import LEAST_SPAN
from rlplan.wording.tables import Cells, Column, table_of
from rlplan.wording.terminal import Canvas, tell

LAST = 6  # rows of a long list that a table shows; JSON has all
TAIL = 12  # lines of a failure's log
# Of the configuration: what the title says already, and what is not for reading.
UNSAID = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "seed", "recipe.", "simulation")


def print_trial(database: str, name: str, sweep: str | None, format: Format) -> None:
    """Print the trial that a name stands for."""
    with open_store(database, read_only=True) as store:
        with store.read() as session:
            found = named(session, name, sweep)
        sheet = read_sheet(store, found.sweep, found.name)
    if found.also_in:
        tell(f"{found.name} is of {found.sweep}; --sweep shows that of {', '.join(found.also_in)}")
    if format is Format.CSV:
        print_csv(SCORE_COLUMNS, trial_data(sheet.row)["points"])
    elif format is Format.JSON:
        print_json(sheet_data(sheet))
    else:
        print_drawn(lambda canvas: _drawn(sheet, canvas))


def sheet_data(sheet: Sheet) -> dict[str, Any]:
    """Return the document that `show TRIAL --format json` prints."""
    return {
        "kind": "trial",
        "sweep": sheet.picture.sweep,
        "plan": sheet.picture.plan,
        "metric": sheet.picture.metric,
        **trial_data(sheet.row),
        "recipe": sheet.recipe,
        "fitted_at": None if sheet.fitted_at is None else sheet.fitted_at.isoformat(),
        "fitted_upto_gpu_hours": sheet.fitted_upto_gpu_hours,
        "checkpoint": sheet.checkpoint,
        "segments": [_timed(each._asdict(), "started_at", "ended_at") for each in sheet.segments],
        "transitions": [_timed(each._asdict(), "at") for each in sheet.moves],
        "decisions": [each.told() for each in sheet.decisions],
        "config": dict(sheet.config),
    }


def _timed(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return row | {name: None if row[name] is None else row[name].isoformat() for name in names}


def _drawn(sheet: Sheet, canvas: Canvas) -> Iterator[Part]:
    yield from canvas.lines(_title(sheet), "bold")
    for text in (_configuration(sheet), _outlook(sheet), _money(sheet)):
        yield from canvas.lines(text)
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
    yield from _failure(sheet, canvas)
    told = [f"{name} {value}" for name, value in settings(sheet.config)]
    if told or sheet.checkpoint:
        yield ""
        yield canvas.line("Settings", "bold")
        yield from canvas.lines(", ".join(told))
    if sheet.checkpoint:
        yield from canvas.lines(f"checkpoint {sheet.checkpoint}")


def settings(config: Any) -> list[tuple[str, Any]]:
    """Return what of a trial's configuration is worth reading, without what the title says and what is not set."""
    return [
        (name, value) for name, value in flattened(config) if value not in (None, False) and not name.startswith(UNSAID)
    ]


def _title(sheet: Sheet) -> str:
    row, seen = sheet.row, sheet.picture
    attempt = f", attempt {row.attempt}" if row.attempt > 1 else ""
    failed = f" ({row.failure_class})" if row.state is TrialState.FAILED and row.failure_class else ""
    return f"{row.name} of {seen.sweep}, {seen.plan}: {row.state}{failed} at step {reached(row)}{attempt}"


def _configuration(sheet: Sheet) -> str:
    row = sheet.row
    axes = f" with {said(row.axes)}" if row.axes else ""
    return (
        f"n = {row.rollouts_per_prompt}, B = {row.prompts_per_batch}{axes}, recipe {sheet.recipe}, learning rate "
        f"{row.learning_rate:.2g}, seed {row.seed}; {sheet.picture.workload}"
    )


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
    whose = "its run, by its newest fit," if answer is None else "a new run of its configuration"
    when = "" if forecast.at is None else f" ({'fitted' if answer is None else 'answered'} {moment(forecast.at)})"
    return (
        f"{scored}. At {hours(forecast.target_gpu_hours)} {whose} is expected to score {expected}, "
        f"{100 * forecast.level:g} % interval{chance}{when}. Its curve{upto}: {forecast.verdict}."
    )


def _money(sheet: Sheet) -> str:
    own = sheet.row.gpu_hours_spent
    total = sheet.picture.money.spent
    share = f", {own / total:.0%} of what the sweep has spent" if total else ""
    return f"It has taken {hours(own)} GPU-hours{share}."


SCORES: Sequence[Column[Score]] = (
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


def _failure(sheet: Sheet, canvas: Canvas) -> Iterator[Part]:
    tail = [line for line in (sheet.row.failure_tail or "").splitlines() if line.strip()]
    if tail:
        yield ""
        yield canvas.line(f"What its log says last ({sheet.row.failure_class or 'error'})", "bold")
        for line in tail[-TAIL:]:
            yield from canvas.lines(line, "red")


def _time(at: datetime) -> str:
    return f"{at:%m-%d %H:%M:%S}"


HEIGHT = 8  # lines
NARROWEST, WIDEST = 16, 100
LABEL = 6  # columns for the scores at the left
# The bits of a braille sign's eight dots, by row and column.
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
BLANK = 0x2800

Place = tuple[float, float]  # from the left and from below, as shares of the chart


def chart(scores: Sequence[Score], canvas: Canvas, height: int = HEIGHT) -> list[str]:
    """Draw scores against GPU-hours, in dots of braille or, without Unicode, asterisks; nothing without room for it."""
    width = min(canvas.width, WIDEST) - LABEL - 1
    if len(scores) < 2 or width < NARROWEST:
        return []
    values = [each.score for each in scores]
    low, high = min(values), max(values)
    missing = max(0.0, LEAST_SPAN - (high - low)) / 2
    low, high = low - missing, high + missing
    last = max(each.gpu_hours for each in scores) or 1.0
    places = _joined([(each.gpu_hours / last, (each.score - low) / (high - low)) for each in scores], width, height)
    drawn = _braille(places, width, height) if canvas.unicode else _asterisks(places, width, height)
    side, corner, floor = ("│", "└", "─") if canvas.unicode else ("|", "+", "-")
    labels = [f"{high:.2f}", *[""] * (height - 2), f"{low:.2f}"]
    end = f"{hours(last)} GPU-hours"
    return [
        *(f"{label:>{LABEL - 1}} {side}{line}".rstrip() for label, line in zip(labels, drawn, strict=True)),
        f"{'':>{LABEL}}{corner}{floor * width}",
        f"{'':>{LABEL}} 0{end:>{width - 1}}",
    ]


def _joined(places: list[Place], width: int, height: int) -> list[Place]:
    """Return points with lines between them where they are too few to be seen as a curve."""
    if len(places) >= width:
        return places
    joined = places[:1]
    for (x, y), (to_x, to_y) in pairwise(places):
        dots = 1 + int(max(abs(to_x - x) * 2 * width, abs(to_y - y) * 4 * height))
        joined += [(x + (to_x - x) * dot / dots, y + (to_y - y) * dot / dots) for dot in range(1, dots + 1)]
    return joined


def _braille(places: Sequence[Place], width: int, height: int) -> list[str]:
    signs = [[0] * width for _ in range(height)]
    for x, y in places:
        column, row = _cell(x, 2 * width), 4 * height - 1 - _cell(y, 4 * height)
        signs[row // 4][column // 2] |= DOTS[row % 4][column % 2]
    return ["".join(chr(BLANK + bits) if bits else " " for bits in line) for line in signs]


def _asterisks(places: Sequence[Place], width: int, height: int) -> list[str]:
    signs = [[" "] * width for _ in range(height)]
    for x, y in places:
        signs[height - 1 - _cell(y, height)][_cell(x, width)] = "*"
    return ["".join(line) for line in signs]


def _cell(share: float, cells: int) -> int:
    return min(cells - 1, max(0, int(share * cells)))
