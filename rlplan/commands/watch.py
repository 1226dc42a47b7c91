"""`rlplan watch`: looks at a run's log again and again, and says a line for each validation, or JSON lines."""

import csv
import json
import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from budgets import catalogue
from budgets.errors import InputError
from budgets.hardware import SECONDS_PER_HOUR
from planner.belief.forecasts import RemainingGain, remaining_gain_alone
from planner.curves.curve import Curve, Vector
from planner.curves.files import Table, read_table
from planner.curves.files.assembly import curves_of
from planner.curves.files.table import rows_of
from planner.logs.alarms import Scored, UpdateWatch, Warned, falls
from planner.logs.consoles import planned_steps
from planner.logs.series import known_to, matching, ours_of, trainer_of
from planner.metrics import Interval
from planner.percent import percent
from planner.scripts.records import Progress, progress_of, read_run
from rlplan.callbacks.run_watch import lines_of
from rlplan.exits import ExitCode
from rlplan.requests.logs import WatchRequest
from rlplan.wording.answers import Answer, Key, View, columns, plain
from rlplan.wording.command_lines import Format
from rlplan.wording.numbers import duration, plural
from rlplan.wording.screen import Canvas, Invocation, NextStep, Part, harmless, next_steps, print_drawn, tell

TABLES = (".csv", ".tsv")  # half a number is a number too; other readers leave out a line that has no end


class LeftData(View[RemainingGain]):
    """What the rest of a run should add."""

    share = Key[float]("of.share", "of the run")
    expected_gain = Key[float]("of.expected")
    chance = Key[float]("of.chance")
    won = Key[bool]("of.won", "whether too little is left to go on for")
    expected_end = Key[Interval](lambda left: Interval(left.of.end.score, left.of.end.low, left.of.end.high))


class ProgressData(View[Progress]):
    """How far a run is."""

    WHOLE = Progress
    seconds_left = Key[float | None]("of.seconds_left")
    gpu_hours = Key[tuple[float, float | None] | None]("of.gpu_hours", "so far, and at its end")


@dataclass(frozen=True)
class WatchEvent:
    """A validation with what it says, or a warning of an update that stands between two."""

    curve: str
    x_name: str
    scored: Scored | None = field(repr=False)
    warned: Warned | None = field(default=None, repr=False)
    left: RemainingGain | None = field(default=None, repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)  # with the first of a curve: how the log was read
    progress: Progress | None = field(default=None, repr=False)  # with the newest of a look

    x = Key[float | None](lambda event: event.scored and event.scored.x)
    score = Key[float | None](lambda event: event.scored and event.scored.score, "null of a warning of updates")
    standard_error = Key[float | None](lambda event: event.scored and event.scored.error)
    training_reward = Key[float | None](lambda event: event.scored and event.scored.reward)
    rule = Key[str | None](lambda event: event.warned and event.warned.rule, "what was warned of")
    evidence = Key[str | None](lambda event: event.warned and event.warned.evidence)
    advice = Key[str | None](lambda event: event.warned and event.warned.advice)
    to_gain = Key[LeftData | None](lambda event: event.left and LeftData(event.left), name="left")
    so_far = Key[ProgressData | None](lambda event: event.progress and ProgressData(event.progress), name="progress")


def followed(
    request: WatchRequest, wait: Callable[[float], None] = time.sleep, say: Callable[[str], None] = lambda text: None
) -> Iterator[WatchEvent]:
    """Yield every validation once, as the log grows; it ends after a warning, and with `once` after what is there.

    A log that cannot be read yet, since nothing is in it, is waited for; `say` hears of it.
    """
    run = Path(request.run)
    counts: dict[tuple[str, str], int] = {}
    before: int | None = None
    first, lacking = True, "no validation is in it"
    while True:
        events: list[WatchEvent] = []
        size = None if request.once else _unended(run)
        held, before = int(size is not None and size != before), size
        try:
            tables = read_table(run)
            events = _looked(tables, request, counts, held)
            if events:
                events[-1] = replace(events[-1], progress=_progress(run, tables, request))
        except InputError as error:
            if request.once or not run.exists():
                raise
            lacking = str(error).partition(". ")[0]
        if first and not request.once:
            say(f"following {run} until it warns; Ctrl-C ends this")
            if not events:
                say(f"nothing to follow yet: {lacking}; it is looked at every {request.every:g} s")
        first = False
        yield from events
        if request.once or any(event.warned for event in events):
            return
        wait(request.every)


def _unended(run: Path) -> int | None:
    """Return the size of a table whose last line has no end, since it is being written: a number may lack digits."""
    if run.suffix.casefold() not in TABLES or not run.is_file():
        return None
    with run.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 1))
        return None if file.read(1) in (b"\n", b"") else size


def _looked(
    tables: Sequence[Table], request: WatchRequest, counts: dict[tuple[str, str], int], held: int
) -> list[WatchEvent]:
    """Return what is new in a log, without its newest validation where that is `held` back.

    A part of it without scores is passed over where another has some.
    """
    events: list[WatchEvent] = []
    refusals: list[InputError] = []
    for table in tables:
        try:
            events += _events(table, request, counts, held)
        except InputError as refusal:
            refusals.append(refusal)
    if len(refusals) == len(tables):
        raise refusals[0]
    return events


def _progress(run: Path, tables: Sequence[Table], request: WatchRequest) -> Progress | None:
    """Return how far the run is; None where its log counts no steps, or holds several runs."""
    with suppress(InputError):
        logged = read_run(run, tables=tables)
        planned = request.end or (planned_steps(logged.log) if logged.log else None)
        price = None if request.gpu is None else catalogue.gpu(request.gpu).dollars_per_hour
        end = None if planned is None else int(planned)
        return progress_of(logged.steps, end, request.gpus, price, logged.ahead)
    return None


def _events(table: Table, request: WatchRequest, counts: dict[tuple[str, str], int], held: int) -> Iterator[WatchEvent]:
    """Yield what is new of one table: `counts` holds how many validations of each curve and series were told."""
    of_updates = _of_updates(table)
    for curve in curves_of(table, x=request.x, y=request.y, by=request.by, percent=request.percent):
        measured = curve.evaluated_on(request.answers) if request.answers is not None else _with_errors(curve, table)
        scored = _scored(measured, table)
        scored = scored[: len(scored) - held]
        reported = counts.get((curve.name, curve.y_name), 0)
        before = max(0, reported - 1)
        warnings = dict(enumerate(falls(scored, before), start=before))
        for number in range(reported, len(scored)):
            warned_before, warned = warnings.get(number - 1), warnings[number]
            newest = number == len(scored) - 1
            yield WatchEvent(
                curve.name,
                curve.x_name,
                scored[number],
                None if warned_before else warned,  # it is said once, when it begins
                remaining_gain_alone(measured, request.end) if newest and request.end is not None else None,
                curve.notes if number == 0 else (),
            )
        counts[curve.name, curve.y_name] = max(reported, len(scored))
        if of_updates is not None:
            yield WatchEvent(curve.name, curve.x_name, None, of_updates)
            of_updates = None


def _with_errors(curve: Curve, table: Table) -> Curve:
    """Return the curve with the errors that rlplan's own metrics hold beside each score."""
    errors = table.columns.get("score_standard_error")
    if errors is None or curve.standard_errors is not None or curve.x_name not in table.columns:
        return curve
    beside = dict(zip(table.columns[curve.x_name], errors, strict=True))
    errors_at = np.array([beside.get(x, np.nan) for x in curve.x])
    if not np.isfinite(errors_at).all():
        return curve
    return replace(curve, standard_errors=errors_at)


def _scored(curve: Curve, table: Table) -> list[Scored]:
    """Return the validations with the mean training reward since the one before, where the log has one."""
    at, rewards = _rewards(table, curve)
    bounds = np.searchsorted(at, curve.x, side="right").tolist()
    sums = np.concatenate([[0.0], np.cumsum(rewards)])
    before, scored = 0, []
    errors = curve.standard_errors
    for number, (x, y, bound) in enumerate(zip(curve.x, curve.y, bounds, strict=True)):
        error = None if errors is None else float(errors[number])
        reward = float(sums[bound] - sums[before]) / (bound - before) if bound > before else None
        scored.append(Scored(float(x), float(y), error, reward))
        before = bound
    return scored


def _rewards(table: Table, curve: Curve) -> tuple[Vector, Vector]:
    """Return the training rewards and where they were, in the order of x."""
    none = np.empty(0), np.empty(0)
    trainer = trainer_of(table.columns, table.trainer)
    if trainer is None or curve.x_name not in table.columns:
        return none
    patterns = trainer.metrics.get("reward", ())
    matches = (table.columns[name] for pattern in patterns for name in matching(pattern, table.columns))
    rewards = next(matches, None)
    if rewards is None:
        return none
    at = table.columns[curve.x_name]
    rows = np.flatnonzero(np.isfinite(at) & np.isfinite(rewards))
    rows = rows[np.argsort(at[rows], kind="stable")]
    return at[rows], rewards[rows]


def _of_updates(table: Table) -> Warned | None:
    """Return the first thing that is wrong with the updates of a log in a trainer's names."""
    trainer = trainer_of(table.columns, table.trainer)
    steps = table.columns.get("step")
    if trainer is None or steps is None:
        return None
    watch = UpdateWatch()
    for row, values in enumerate(rows_of(table, known_to(trainer, table.columns))):
        ours, _ = ours_of(trainer, values)
        if ours and (warned := watch.see(int(steps[row]) if np.isfinite(steps[row]) else row, ours)):
            return warned
    return None


NEWEST = 12  # validations on the first screen
COLUMNS = columns("curve x score standard_error training_reward rule evidence advice")


@dataclass(frozen=True, repr=False)
class Watched(Answer):
    """What a run says as it goes on: each look is an iteration."""

    COLUMNS = COLUMNS

    asked: WatchRequest

    def __iter__(self) -> Iterator[WatchEvent]:
        return followed(self.asked)

    def __str__(self) -> str:
        ends = "" if self.asked.once else "; once=True ends with what is there"
        return f"{self.asked.run}: iterate over it for each validation{ends}"

    @property
    def document(self) -> Sequence[WatchEvent]:
        """A line for each validation."""
        return list(self)

    @property
    def listed(self) -> Sequence[Any]:
        """A row for each validation."""
        return list(map(plain, self))

    def emit(self, format: Format, invocation: Invocation) -> ExitCode:
        """Print each line when it comes, or the newest of those that are there."""
        warned, writer = False, csv.DictWriter(sys.stdout, COLUMNS, extrasaction="ignore", lineterminator="\n")
        progress: Progress | None = None
        number, newest = 0, deque[str](maxlen=None if invocation.explain else NEWEST)
        if format is Format.CSV:
            writer.writeheader()
        for event in followed(self.asked, say=tell):
            number += 1
            warned, progress = warned or event.warned is not None, event.progress or progress
            for note in event.notes:
                tell(f"note: {note}")
            if format is Format.JSON:
                print(json.dumps(plain(event)))  # noqa: T201
            elif format is Format.CSV:
                writer.writerow(plain(event))
            elif self.asked.once:
                newest.append(harmless(_line(event)))
            else:
                print(harmless(_line(event)))  # noqa: T201
            sys.stdout.flush()
        if not number:
            tell("nothing was validated yet")
            return ExitCode.NOT_FOUND
        if format is Format.TABLE:
            print_drawn(lambda canvas: _ended(self.asked, number, list(newest), progress, invocation, canvas))
        return ExitCode.FINISHED_WITH_FAILURES if warned else ExitCode.DONE


def answer(request: WatchRequest) -> Watched:
    """Follow a run."""
    return Watched(request)


def _ended(
    request: WatchRequest,
    number: int,
    newest: Sequence[str],
    progress: Progress | None,
    invocation: Invocation,
    canvas: Canvas,
) -> Iterator[Part]:
    """Return the newest lines where they were not printed as they came, how far it is, and what can be typed next."""
    for text in newest:
        for line in text.splitlines():
            yield from canvas.lines(line)
    further = []
    if newest and (earlier := number - len(newest)):
        yield canvas.line(f"{plural(earlier, 'earlier validation')} not shown", "dim")
        further = [invocation.explained("every validation")]
    for line in lines_of(progress) if progress and request.once else []:
        yield from canvas.lines(line)
    fitted = NextStep(shlex.join(["rlplan", "fit", str(request.run)]), "where its curve goes")
    yield from next_steps([fitted, *further], canvas)


def _line(event: WatchEvent) -> str:
    parts = []
    if (scored := event.scored) is not None:
        error = f" ± {scored.error:.3f}" if scored.error is not None else ""
        reward = f", training reward {scored.reward:.3f}" if scored.reward is not None else ""
        parts.append(f"{event.curve}: score {scored.score:.3f}{error} at {event.x_name} {scored.x:g}{reward}")
    if event.left is not None:
        left = event.left
        rest = f"{percent(left.share)} of the run left, which should add {left.expected:.3f}"
        ends = ": little left to gain, end it here" if left.won else f" (end {left.end.score:.3f})"
        parts.append(f"{rest}{ends}")
    if (progress := event.progress) is not None and progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left / SECONDS_PER_HOUR)} left")
    if event.warned is not None:
        advice = event.warned.advice[:1].upper() + event.warned.advice[1:]
        parts.append(f"WARNING ({event.warned.rule}): {event.warned.evidence}. {advice}.")
    return "; ".join(parts) if event.warned is None else "\n".join(parts)
