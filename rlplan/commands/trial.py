"""`rlplan status TRIAL`: where one trial stands, what it scored, its newest segments and states, and why."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import NotFoundError, suggest
from planner.axes import format_axes
from planner.store.schema import Decision, Fit, Segment, Sweep, Transition, Trial
from planner.store.sweeps import sweep_named
from planner.view import TrialState
from rlplan.reading.decisions import decisions_of
from rlplan.reading.sweep_picture import ScoreData, SegmentRow, TrialRow
from rlplan.reading.sweep_rows import read_picture, segments_of, without_variables
from rlplan.reading.sweep_words import reached, with_error
from rlplan.wording.answers import Answer, columns, plain
from rlplan.wording.numbers import UNKNOWN, aligned_hours, hours, interval, probability, rate, some_of, steps
from rlplan.wording.screen import (
    BLOCKS,
    PLAIN_BLOCKS,
    Canvas,
    Cells,
    Column,
    Invocation,
    NextStep,
    Part,
    next_steps,
    one_screen,
    shortened,
    sparkline,
    table_of,
)

NEAR = 3  # names that are offered for one that is not known


@dataclass(frozen=True, slots=True)
class TrialName:
    """A trial and its sweep; `also_in` are other sweeps with a trial of the same name."""

    trial: str
    sweep: str
    also_in: tuple[str, ...] = ()


def trial_named(session: Session, text: str) -> TrialName:
    """Return the trial that a text such as n8-B64-s0, its beginning, or sweep-1/n8 stands for.

    A name that several sweeps have is the newest's.
    """
    sweep, _, name = text.rpartition("/")
    query = select(Trial.name, Sweep.name).join(Sweep, Sweep.id == Trial.sweep_id).order_by(Sweep.id.desc(), Trial.id)
    if sweep:
        query = query.where(Sweep.id == sweep_named(session, sweep).id)
    rows = [(trial, of) for trial, of in session.execute(query)]
    folded = name.casefold()
    for matching in (
        [row for row in rows if row[0] == name],
        [row for row in rows if row[0].casefold().startswith(f"{folded}-")],
        [row for row in rows if row[0].casefold().startswith(folded)],
    ):
        if matching:
            trial, newest = matching[0]
            here = sorted({other for other, of in matching if of == newest})
            if len(here) > 1:
                raise NotFoundError(f"'{name}' begins the names of several trials of {newest}: {some_of(here, NEAR)}")
            return TrialName(trial, newest, tuple(of for other, of in matching if other == trial and of != newest))
    missing = f"there is no trial '{name}'{f' in {sweep}' if sweep else ''}"
    if (near := suggest(name, {trial for trial, _ in rows})).startswith("did"):
        raise NotFoundError(f"{missing}: {near}")
    raise NotFoundError(f"{missing}: `rlplan status {sweep}".rstrip() + "` lists the trials of a sweep")


def sweep_or_trial(session: Session, text: str | None) -> str | TrialName:
    """Return the name of a sweep, or the trial that a text stands for where no sweep is called so."""
    if text is None or session.scalar(select(Sweep.id).where(Sweep.name == text)) is not None:
        return sweep_named(session, text).name
    try:
        return trial_named(session, text)
    except NotFoundError:
        if "/" not in text and not re.match(r"n\d", text, re.IGNORECASE):
            sweep_named(session, text)  # which says what sweeps there are
        raise


NEWEST = 5  # segments and states that a screen shows; JSON has all
TAIL = 3  # lines of a failure's log
SPARKLINE = 40  # columns
REASON = 54  # signs of a reason; JSON has all of it


@dataclass(frozen=True, slots=True)
class Move:
    """A change of a trial's state."""

    at: datetime
    from_state: TrialState | None
    to_state: TrialState
    reason: str


@dataclass(frozen=True, repr=False)
class TrialStanding(Answer):
    """Everything about one trial; its rows are the scores that count."""

    COLUMNS = columns("step gpu_hours score score_standard_error")

    name: TrialName
    workload: str
    row: TrialRow
    details: Mapping[str, Any]  # what JSON has beside the row

    @property
    def stderr(self) -> Sequence[str]:
        """Where there are others of that name."""
        others = ", ".join(f"{sweep}/{self.name.trial}" for sweep in self.name.also_in)
        return (f"{self.name.trial} is of {self.name.sweep}; there is {others} too",) if others else ()

    @property
    def listed(self) -> Sequence[Any]:
        """Its scores."""
        return list(map(ScoreData, self.row.scores))

    @property
    def document(self) -> Mapping[str, Any]:
        """All of it."""
        return {**plain(self.row), **self.details}

    def parts(self, invocation: Invocation, canvas: Canvas) -> Iterator[Part]:
        """Draw one screen of it, or all of its segments and states."""
        row, details = self.row, self.details
        failed = f" ({row.failure_class})" if row.state is TrialState.FAILED and row.failure_class else ""
        attempt = f", attempt {row.attempt}" if row.attempt > 1 else ""
        title = f"{row.name} of {self.name.sweep}, {details['plan']}: {row.state}{failed}"
        above: list[Part] = [*canvas.lines(f"{title} at step {reached(row)}{attempt}", "bold")]
        axes = f" with {format_axes(row.axes)}" if row.axes else ""
        size = f"n = {row.rollouts_per_prompt}, B = {row.prompts_per_batch}{axes}"
        recipe = f"recipe {details['recipe']}, learning rate {rate(row.learning_rate)}, seed {row.seed}"
        above += canvas.lines(f"{size}, {recipe}; {self.workload}")
        spent = f"It has taken {hours(row.gpu_hours_spent)} GPU-hours."
        above += canvas.lines(f"{_outlook(row, details['metric'])} {spent}")
        if row.scores:
            blocks = BLOCKS if canvas.unicode else PLAIN_BLOCKS
            above.append(canvas.line(sparkline([point.score for point in row.scores], SPARKLINE, blocks), "cyan"))
        tail = [line for line in (row.failure_tail or "").splitlines() if line.strip()][-TAIL:]
        below: list[Part] = [canvas.line("Its log ends with", "bold"), *(canvas.line(line, "red") for line in tail)]
        below = below if tail else []
        decisions = NextStep(
            invocation.command("decisions", f"{self.name.sweep} --trial {row.name}"), "what was decided"
        )
        below += next_steps([decisions, invocation.explained("all of it")], canvas)
        everything = max(len(details["segments"]), len(details["transitions"])) if invocation.explain else None
        yield from one_screen(above, lambda most: self._lists(most, canvas), below, canvas, everything, NEWEST)

    def _lists(self, most: int, canvas: Canvas) -> Iterator[Part]:
        """Return the newest segments and states, each below its heading."""
        lists = (("Segments", self.details["segments"], SEGMENTS), ("States", self.details["transitions"], STATES))
        for heading, rows, shown in lists:
            if rows:
                of = f", the last {most} of {len(rows):,}" if len(rows) > most else ""
                yield from ("", canvas.line(f"{heading}{of}", "bold"), table_of(rows[-most:], shown, canvas))


def _outlook(row: TrialRow, metric: str) -> str:
    """Say what it has scored, and what is expected of its configuration."""
    if row.last is None:
        return "No score yet."
    score = f"Score {with_error(row.last)} ({metric}) at {hours(row.last.gpu_hours)} GPU-hours."
    forecast = row.forecast
    if forecast is None:
        return score
    best = forecast.probability_best
    chance = "" if best is None else f", P(best) {probability(best)}"
    expected = interval(forecast.mean, forecast.low, forecast.high)
    return f"{score} Expected at {hours(forecast.target_gpu_hours)} GPU-hours: {expected}{chance}."


SEGMENTS: Sequence[Column[SegmentRow]] = (
    Column("#", attrgetter("number")),
    Column("steps", lambda segment: f"{steps(segment.from_step)}–{steps(segment.to_step)}"),
    Column("reserved", lambda segment: aligned_hours(segment.reserved_gpu_hours)),
    Column("charged", lambda segment: aligned_hours(segment.charged_gpu_hours)),
    Column("outcome", attrgetter("outcome"), Cells.NAMES),
    Column("worker", lambda segment: segment.worker or UNKNOWN, Cells.PATHS),
    Column("began (UTC)", lambda segment: f"{segment.started_at:%m-%d %H:%M:%S}", Cells.NAMES),
)
STATES: Sequence[Column[Move]] = (
    Column("time (UTC)", lambda move: f"{move.at:%m-%d %H:%M:%S}", Cells.NAMES),
    Column("state", attrgetter("to_state"), Cells.NAMES),
    Column("why", lambda move: shortened(move.reason, REASON), Cells.TEXTS),
)


def trial_standing(session: Session, name: TrialName) -> TrialStanding:
    """Return everything about a trial."""
    sweep = sweep_named(session, name.sweep)
    picture = read_picture(session, sweep, datetime.now(UTC))
    row = next(trial for trial in picture.trials if trial.name == name.trial)
    stored = session.scalars(select(Trial).where(Trial.id == row.id)).one()
    newest = select(Fit.made_at, Fit.upto_gpu_hours).where(Fit.trial_id == row.id).order_by(Fit.id.desc()).limit(1)
    fitted = session.execute(newest).first()
    history = select(Transition.at, Transition.from_state, Transition.to_state, Transition.reason)
    moves = session.execute(history.where(Transition.trial_id == row.id).order_by(Transition.id))
    details = {
        "kind": "trial",
        "sweep": picture.sweep,
        "plan": picture.plan,
        "metric": picture.metric,
        "recipe": stored.recipe,
        "fitted_at": fitted[0] if fitted else None,
        "fitted_upto_gpu_hours": fitted[1] if fitted else None,
        "checkpoint": stored.checkpoint_path,
        "segments": tuple(segments_of(session, Segment.trial_id == row.id).values()),
        "transitions": tuple(Move(*move) for move in moves),
        "decisions": decisions_of(session, sweep.id, Decision.trial_id == row.id),
        "config": without_variables(stored.config),
    }
    return TrialStanding(name, picture.workload, row, details)
