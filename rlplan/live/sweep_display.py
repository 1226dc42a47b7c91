"""What a person sees on stderr of a sweep under way: a live screen at a terminal, one line per event elsewhere."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from planner.store.schema import Decision, Recommendation, Segment, SegmentOutcome, Transition, Trial
from planner.view import FINAL_POLICY, ScorePoint, TrialState
from rlplan.live.sweep_screen import screen, title
from rlplan.reading.sweep_picture import Picture, TrialRow, sentence
from rlplan.reading.sweep_words import forecast_text, with_error
from rlplan.wording.numbers import aligned_hours, hours, probability, steps
from rlplan.wording.screen import Canvas, live_console, tell

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


Event = tuple[datetime, str]
_REPORTED = {TrialState.PRUNED, TrialState.FINISHED, TrialState.FAILED, TrialState.LOST}


@dataclass(frozen=True, slots=True)
class Position:
    """Up to where the rows of a sweep were told."""

    transition: int
    segment: int
    open_segments: frozenset[int]
    decision: int
    recommendation: int


def position(session: Session, sweep_id: int) -> Position:
    """Return the position behind everything that has happened so far."""
    trials = select(Trial.id).where(Trial.sweep_id == sweep_id)
    still_open = select(Segment.id).where(Segment.trial_id.in_(trials), Segment.outcome == SegmentOutcome.RESERVED)
    of_sweep = (
        select(func.max(Transition.id)).where(Transition.trial_id.in_(trials)),
        select(func.max(Segment.id)).where(Segment.trial_id.in_(trials)),
        select(func.max(Decision.number)).where(Decision.sweep_id == sweep_id),
        select(func.max(Recommendation.id)).where(Recommendation.sweep_id == sweep_id),
    )
    transition, segment, decision, recommendation = (session.scalar(query) or 0 for query in of_sweep)
    return Position(transition, segment, frozenset(session.scalars(still_open)), decision, recommendation)


def news(session: Session, sweep_id: int, picture: Picture, since: Position) -> list[str]:
    """Return a line for everything that has happened after a position, in the order in which it did."""
    trials = {trial.id: trial for trial in picture.trials}
    # Decisions about the sweep as a whole; what was about a trial shows in the trial.
    of_sweep = Decision.sweep_id == sweep_id, Decision.number > since.decision, Decision.trial_id.is_(None)
    decisions = session.scalars(select(Decision).where(*of_sweep).order_by(Decision.number))
    events = [
        *_segments(session, sweep_id, trials, since),
        *_moves(session, sweep_id, trials, since),
        *((decision.at, f"{decision.action}: {decision.reason}") for decision in decisions),
    ]
    lines = [text for _, text in sorted(events, key=itemgetter(0))]
    newest = select(func.max(Recommendation.id)).where(Recommendation.sweep_id == sweep_id)
    if picture.answer and not picture.answer.so_far and (session.scalar(newest) or 0) > since.recommendation:
        lines.append(sentence(picture.answer))
    return lines


def _segments(session: Session, sweep_id: int, trials: dict[int, TrialRow], since: Position) -> list[Event]:
    of_sweep = Segment.trial_id.in_(select(Trial.id).where(Trial.sweep_id == sweep_id))
    firsts = select(func.min(Segment.id)).where(of_sweep).group_by(Segment.trial_id, Segment.attempt)
    query = (
        select(Segment, Segment.id.in_(firsts))
        .where(of_sweep, or_(Segment.id > since.segment, Segment.id.in_(since.open_segments)))
        .order_by(Segment.id)
    )
    # Up to which step each trial's start was decided: its segment may be granted less, and come less far.
    starts = select(Decision.trial_id, Decision.seen).where(Decision.sweep_id == sweep_id, Decision.action == "start")
    started = session.execute(starts.where(Decision.number > since.decision)).all()
    decided = {trial: seen["to_step"] for trial, seen in started if "to_step" in seen}
    events = []
    for segment, first in session.execute(query):
        trial = trials[segment.trial_id]
        if segment.id > since.segment and first:
            begun = f"starts, up to step {steps(decided.get(segment.trial_id, segment.to_step))}"
            if segment.attempt > 1:
                begun = f"goes on from step {steps(segment.from_step)}, attempt {segment.attempt}"
            events.append((segment.started_at, f"{trial.name} {begun}"))
        if segment.outcome is SegmentOutcome.COMMITTED and segment.ended_at is not None:
            events.append((segment.ended_at, f"{trial.name} {_committed(segment, trial)}"))
    return events


def _committed(segment: Segment, trial: TrialRow) -> str:
    points: list[ScorePoint] = [score for score in trial.scores if score.step <= segment.to_step]
    line = f"step {steps(segment.to_step)}: "
    line += f"score {with_error(points[-1])}" if points else "no score yet"
    line += f", {aligned_hours(trial.gpu_hours_spent)} GPU-hours"
    if trial.forecast:
        line += f"; at target {forecast_text(trial)}, P(best) {probability(trial.forecast.probability_best)}"
    return line


def _moves(session: Session, sweep_id: int, trials: dict[int, TrialRow], since: Position) -> list[Event]:
    query = (
        select(Transition)
        .join(Trial, Trial.id == Transition.trial_id)
        .where(Trial.sweep_id == sweep_id, Transition.id > since.transition, Transition.to_state.in_(_REPORTED))
        .order_by(Transition.id)
    )
    events = []
    for move in session.scalars(query):
        trial = trials[move.trial_id]
        kind = trial.failure_class if move.to_state is TrialState.FAILED else None
        failure = "" if kind is None or move.reason.startswith(kind) else f"{kind}: "
        events.append((move.at, f"{trial.name} {move.to_state} at step {steps(trial.step)}: {failure}{move.reason}"))
    return events


STOPPING = "stopping: updates under way end and are saved; Ctrl-C again ends at once"
READY = "getting ready"
STDERR = 2
ECHO_COLUMNS = 4  # free at the right: a terminal's own ^C there must not begin a new line


class Lines:
    """One plain line for each event, for a log or a pipe; the first comes with the first picture.

    All but `stopping` are called from one thread at a time.
    """

    def __init__(self) -> None:
        self._begun = False
        self._troubled = False

    def open(self) -> None:
        """Show that the sweep is being made ready."""

    def show(self, picture: Picture, news: Sequence[str]) -> None:
        """Show how the sweep stands, and what has happened since the last time."""
        self._troubled = False
        if not self._begun:
            self._begun = True
            run = "the final run" if picture.policy == FINAL_POLICY else "pilots"
            tell(f"{title(picture)}, {hours(picture.money.pilot_gpu_hours)} GPU-hours for {run}")
        for line in news:
            tell(line)

    def trouble(self, reason: str) -> None:
        """Say once that the database cannot be read; what was shown last stays."""
        if not self._troubled:
            tell(f"the database cannot be read now, the sweep goes on: {reason}")
        self._troubled = True

    def stopping(self) -> None:
        """Show that an interrupt was heard: past Python's buffers, which a signal handler must not enter again."""
        os.write(STDERR, f"{STOPPING}\n".encode())

    def close(self) -> None:
        """Leave the terminal as it was."""


class Terminal(Lines):
    """A screen that is drawn over itself and goes away in the end."""

    def __init__(self, console: "Console") -> None:
        """Draw on a console that is a terminal."""
        super().__init__()
        from rich.live import Live  # noqa: PLC0415

        self._console = console
        self._picture: Picture | None = None
        self._status = READY
        self._stopping = False
        self._live = Live(console=console, get_renderable=self.render, refresh_per_second=4, transient=True)

    def open(self) -> None:
        """Start drawing."""
        self._live.start(refresh=True)

    def show(self, picture: Picture, news: Sequence[str]) -> None:
        """Take the picture; it is drawn with the next refresh."""
        self._picture, self._status = picture, ""

    def trouble(self, reason: str) -> None:
        """Say so below the last picture."""
        self._status = f"the database cannot be read now: {reason}"

    def stopping(self) -> None:
        """Say so with the next refresh."""
        self._stopping = True

    def close(self) -> None:
        """Take the screen away."""
        self._live.stop()

    def render(self) -> "RenderableType":
        """Return the screen as it is now, for the terminal's size of now."""
        from rich.console import Group  # noqa: PLC0415

        width, height = self._console.size
        # A terminal's own ^C must not begin a new line, nor the last line scroll the screen.
        canvas = Canvas(max(1, width - ECHO_COLUMNS), max(1, height - 1), self._console.encoding.startswith("utf"))
        status = STOPPING if self._stopping else self._status
        if self._picture is None:
            return canvas.line(status, "yellow")
        return Group(*screen(self._picture, canvas, status))


def choose_display() -> Lines:
    """Return the live screen at a terminal that can draw it, lines anywhere else."""
    console = live_console()
    return Lines() if console is None else Terminal(console)
