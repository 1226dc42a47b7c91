"""Stores what is run: sweeps, and trials with their states."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from budgets.errors import NotFoundError
from planner.store.plans import missing, next_name, plan_named
from planner.store.records import NewSweep, NewTrial
from planner.store.schema import Sweep, SweepStatus, Transition, Trial
from planner.trials import TrialState, move


def create_sweep(session: Session, plan: str | None, sweep: NewSweep, created_at: datetime) -> str:
    """Store a sweep of a plan, or of the newest plan, under the next free name, and return the name."""
    plan_id = plan_named(session, plan).id
    name = next_name("sweep", session.scalars(select(Sweep.name)))
    session.add(Sweep(plan_id=plan_id, name=name, created_at=created_at, status=SweepStatus.CREATED, **vars(sweep)))
    return name


def sweep_named(session: Session, name: str | None) -> Sweep:
    """Return the sweep of that name, or the newest; raise NotFoundError if there is none."""
    wanted = select(Sweep).order_by(Sweep.id.desc()).limit(1)
    if name is not None:
        wanted = wanted.where(Sweep.name == name)
    sweep = session.scalar(wanted)
    if sweep is None:
        raise NotFoundError(missing("sweep", name, session.scalars(select(Sweep.name).order_by(Sweep.id))))
    return sweep


def add_trial(session: Session, sweep: str, trial: NewTrial, at: datetime) -> int:
    """Plan a trial and return its id; one that the sweep already has is found, not doubled, and stays as it is."""
    sweep_id = sweep_named(session, sweep).id
    identity = {
        "sweep_id": sweep_id,
        "rollouts_per_prompt": trial.rollouts_per_prompt,
        "prompts_per_batch": trial.prompts_per_batch,
        "recipe": trial.recipe,
        "learning_rate": trial.learning_rate,
        "seed": trial.seed,
        "axes": trial.axes,
    }
    known = session.scalar(select(Trial.id).filter_by(**identity))
    if known is not None:
        return known
    state = TrialState.PLANNED
    row = Trial(sweep_id=sweep_id, state=state, attempt=1, created_at=at, updated_at=at, **vars(trial))
    session.add(row)
    session.flush()
    session.add(Transition(trial_id=row.id, from_state=None, to_state=state, at=at, reason="planned"))
    return row.id


def move_trial(
    session: Session,
    trial_id: int,
    to_state: TrialState,
    at: datetime,
    reason: str,
    failure_class: str | None,
    failure_tail: str | None,
) -> None:
    """Move a trial to a state that it can reach, and store the move; leaving failed or lost begins a new attempt."""
    trial = trial_with(session, trial_id)
    old = trial.state
    trial.state = move(old, to_state)
    trial.updated_at = at
    if old in (TrialState.FAILED, TrialState.LOST):
        # Points of the new attempt then stand beside those of the old one at the same steps, and win.
        trial.attempt += 1
    trial.failure_class, trial.failure_tail = failure_class, failure_tail
    session.add(Transition(trial_id=trial_id, from_state=old, to_state=to_state, at=at, reason=reason))


def trial_with(session: Session, trial_id: int) -> Trial:
    """Return the trial with that id; raise NotFoundError if there is none."""
    trial = session.get(Trial, trial_id)
    if trial is None:
        raise NotFoundError(f"there is no trial with id {trial_id}")
    return trial
