"""Reads everything about one trial: its configuration, its life, its money, its curve, what was decided about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import RlplanError
from planner.store import Store
from planner.store.schema import Fit, Segment, SegmentOutcome, Transition, Trial
from planner.store.sweeps import sweep_named
from planner.trials import TrialState
from rlplan.reading.decisions import Decision, decisions_of_trial
from rlplan.reading.sweep_picture import Picture, TrialRow
from rlplan.reading.sweep_reading import read_picture


@dataclass(frozen=True, slots=True)
class Moved:
    """One change of the trial's state."""

    at: datetime
    from_state: TrialState | None
    to_state: TrialState
    reason: str


@dataclass(frozen=True, slots=True)
class Granted:
    """One segment of the trial."""

    number: int
    attempt: int
    from_step: int
    to_step: int
    worker: str | None
    started_at: datetime
    ended_at: datetime | None
    reserved_gpu_hours: float
    charged_gpu_hours: float | None
    outcome: SegmentOutcome


@dataclass(frozen=True, slots=True)
class Continuation:
    """How the trial is trained on; without a command, the note says why there is none."""

    command: tuple[str, ...] | None
    note: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """Everything about one trial."""

    picture: Picture  # of its sweep
    row: TrialRow
    recipe: str
    config: Mapping[str, Any]
    checkpoint: str | None
    fitted_at: datetime | None
    fitted_upto_gpu_hours: float | None
    moves: tuple[Moved, ...]
    segments: tuple[Granted, ...]
    decisions: tuple[Decision, ...]


def read_sheet(store: Store, sweep: str, trial: str) -> Sheet:
    """Return everything about the trial of that name."""
    with store.read() as session:
        of_sweep = sweep_named(session, sweep)
        seen = read_picture(session, of_sweep, datetime.now(UTC))
        row = next(each for each in seen.trials if each.name == trial)
        stored = session.scalars(select(Trial).where(Trial.id == row.id)).one()
        newest = select(Fit.made_at, Fit.upto_gpu_hours).where(Fit.trial_id == row.id).order_by(Fit.id.desc()).limit(1)
        fitted = session.execute(newest).first()
        return Sheet(
            picture=seen,
            row=row,
            recipe=stored.recipe,
            config=stored.config,
            checkpoint=stored.checkpoint_path,
            fitted_at=fitted[0] if fitted else None,
            fitted_upto_gpu_hours=fitted[1] if fitted else None,
            moves=_moves(session, row.id),
            segments=_segments(session, row.id),
            decisions=decisions_of_trial(session, of_sweep.id, row.id),
        )


def continuation(store: Store, sweep: str, trial: int) -> Continuation:
    """Return how a trial is trained on; what stands in the way is said in the note."""
    from rlplan.reading.launching import launch_of_trial  # noqa: PLC0415 (takes a second to import)
    from rlplan.reading.recommend_reading import stored  # noqa: PLC0415
    from runner.sweep.planned import compared_recipes  # noqa: PLC0415

    try:
        known = stored(store, sweep)
        found = launch_of_trial(known.board, trial, compared_recipes(known.plan))
    except RlplanError as error:
        return Continuation(None, str(error))
    return Continuation(found.command, found.note)


def _moves(session: Session, trial: int) -> tuple[Moved, ...]:
    wanted = select(Transition).where(Transition.trial_id == trial).order_by(Transition.id)
    return tuple(Moved(each.at, each.from_state, each.to_state, each.reason) for each in session.scalars(wanted))


def _segments(session: Session, trial: int) -> tuple[Granted, ...]:
    wanted = select(Segment).where(Segment.trial_id == trial).order_by(Segment.id)
    names = Granted.__dataclass_fields__
    return tuple(Granted(**{name: getattr(each, name) for name in names}) for each in session.scalars(wanted))
