"""What has happened in a sweep since it was last looked at, one plain line for each thing that matters."""

from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from planner.store.schema import Decision, Recommendation, Segment, SegmentOutcome, Transition, Trial
from planner.view import ScorePoint, TrialState
from rlplan.reading.sweep_picture import Picture, TrialRow
from rlplan.reading.sweep_words import forecast_text, sentence, with_error
from rlplan.wording.numbers import aligned_hours, probability, steps

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
    transition, segment, decision, recommendation = (session.scalar(each) or 0 for each in of_sweep)
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
    wanted = (
        select(Segment, Segment.id.in_(firsts))
        .where(of_sweep, or_(Segment.id > since.segment, Segment.id.in_(since.open_segments)))
        .order_by(Segment.id)
    )
    # Up to which step each trial's start was decided: its segment may be granted less, and come less far.
    starts = select(Decision.trial_id, Decision.seen).where(Decision.sweep_id == sweep_id, Decision.action == "start")
    started = session.execute(starts.where(Decision.number > since.decision)).all()
    decided = {trial: seen["to_step"] for trial, seen in started if "to_step" in seen}
    events = []
    for segment, first in session.execute(wanted):
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
    known: list[ScorePoint] = [score for score in trial.scores if score.step <= segment.to_step]
    line = f"step {steps(segment.to_step)}: "
    line += f"score {with_error(known[-1])}" if known else "no score yet"
    line += f", {aligned_hours(trial.gpu_hours_spent)} GPU-hours"
    if trial.forecast:
        line += f"; at target {forecast_text(trial)}, P(best) {probability(trial.forecast.probability_best)}"
    return line


def _moves(session: Session, sweep_id: int, trials: dict[int, TrialRow], since: Position) -> list[Event]:
    wanted = (
        select(Transition)
        .join(Trial, Trial.id == Transition.trial_id)
        .where(Trial.sweep_id == sweep_id, Transition.id > since.transition, Transition.to_state.in_(_REPORTED))
        .order_by(Transition.id)
    )
    events = []
    for each in session.scalars(wanted):
        trial = trials[each.trial_id]
        kind = trial.failure_class if each.to_state is TrialState.FAILED else None
        named = "" if kind is None or each.reason.startswith(kind) else f"{kind}: "
        events.append((each.at, f"{trial.name} {each.to_state} at step {steps(trial.step)}: {named}{each.reason}"))
    return events
