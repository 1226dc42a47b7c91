"""Final runs: each is driven as a sweep whose plan is its allocation alone, and held against its promise."""

from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Mapped, Session, mapped_column

from planner.store.base import Base, PrimaryKey, child_of, may_refer_to, values_of
from planner.store.schema import Candidate, Decision, Plan, Sweep, SweepStatus, Trial
from planner.store.sweeps import spent_gpu_hours, sweep_named


class Final(Base):
    """The final run of a sweep, with the promise that was made at its launch; the row never changes.

    The band holds [share of the run, median, low, high]; the GPU-hours are those of the whole run, without what a pilot
    has trained of it. So are its updates, at the price that was expected: how many it makes follows the price that it
    measures.
    """

    __tablename__ = "finals"

    id: Mapped[PrimaryKey]
    sweep_id: Mapped[int] = mapped_column(child_of("sweeps"), unique=True)
    of_sweep_id: Mapped[int] = mapped_column(child_of("sweeps"), index=True)
    launched_at: Mapped[datetime]
    update_steps: Mapped[int]
    segment_steps: Mapped[int]
    gpu_hours_per_step: Mapped[float]
    start_up_gpu_hours: Mapped[float]
    from_trial_id: Mapped[int | None] = mapped_column(may_refer_to("trials"), index=True)
    from_step: Mapped[int]
    stop_when_won: Mapped[bool]
    promised_score: Mapped[float]
    promised_low: Mapped[float]
    promised_high: Mapped[float]
    promised_gpu_hours: Mapped[float]
    promised_band: Mapped[list[Any]]


class ForecastOfFinal(Base):
    """What was believed of a final run's end after one of its validations.

    `probability_below` is that of a notable shortfall. What is left to win is NULL before the run's own curve can tell.
    """

    __tablename__ = "forecasts"

    id: Mapped[PrimaryKey]
    final_id: Mapped[int] = mapped_column(child_of("finals"), index=True)
    made_at: Mapped[datetime]
    step: Mapped[int]
    gpu_hours: Mapped[float]
    score: Mapped[float]
    end_score: Mapped[float]
    end_low: Mapped[float]
    end_high: Mapped[float]
    probability_below: Mapped[float]
    expected_gain: Mapped[float | None]
    probability_more: Mapped[float | None]


BEST = "best"  # folder of its best checkpoint, in its trial's
# Actions among the decisions of a final run, and the rule of a warning that is about the promise alone.
WARNING, CLEARED, VALIDATION, WON, ENDING = "warning", "all-clear", "validation", "won", "ended"
PROMISE = "promise"
SWITCH, STAY = "switch", "stay"
ENDED = frozenset({SweepStatus.FINISHED, SweepStatus.FAILED})


def add_final(session: Session, sweep: str, of_sweep: str, final: Final, at: datetime) -> None:
    """Note that a stored sweep is the final run of another."""
    final.sweep_id, final.of_sweep_id = sweep_named(session, sweep).id, sweep_named(session, of_sweep).id
    final.launched_at = at
    session.add(final)


def final_of(session: Session, sweep_id: int) -> Final | None:
    """Return what was promised of a final run; None where the sweep is none."""
    return session.scalar(select(Final).where(Final.sweep_id == sweep_id))


def pilots_of(session: Session, sweep: Sweep) -> Sweep:
    """Return the sweep that a final run is of; any other itself."""
    final = final_of(session, sweep.id)
    return sweep if final is None else session.get_one(Sweep, final.of_sweep_id)


def finals_of(session: Session, sweep_id: int) -> list[tuple[Final, Sweep]]:
    """Return the final runs of a sweep with the rows that they are driven by, the oldest first."""
    query = select(Final, Sweep).join(Sweep, Sweep.id == Final.sweep_id).where(Final.of_sweep_id == sweep_id)
    return [(final, sweep) for final, sweep in session.execute(query.order_by(Final.id))]


def at_work(session: Session, name: str | None) -> Sweep:
    """Return the sweep of that name, or the newest; its final run instead where one was launched and has not ended."""
    row = sweep_named(session, name)
    unended = [sweep for _, sweep in finals_of(session, row.id) if sweep.status not in ENDED]
    return unended[-1] if unended else row


def spent_beside(session: Session, plan_id: int, sweep_id: int | None = None) -> dict[str, float]:
    """Return the GPU-hours that the sweeps of a plan have spent, by name, without one of them and its final runs."""
    own_sweeps = {sweep_id} | {row.id for _, row in (finals_of(session, sweep_id) if sweep_id is not None else ())}
    query = select(Sweep.id, Sweep.name).where(Sweep.plan_id == plan_id).order_by(Sweep.id)
    others = {number: name for number, name in session.execute(query) if number not in own_sweeps}
    spent = spent_gpu_hours(session, list(others))
    return {name: spent[number] for number, name in others.items() if spent[number] > 0}


def end_of_run(session: Session, final: Final) -> int:
    """Return the update up to which a final run goes by what it has measured, as its driver last decided."""
    decided = Decision.sweep_id == final.sweep_id, Decision.action.in_(("start", "continue", "finish"))
    query = select(Decision).where(*decided)
    newest = session.scalar(query.order_by(Decision.number.desc()).limit(1))
    return final.update_steps if newest is None else int(newest.seen.get("most_steps", final.update_steps))


def forecasts_of(session: Session, final_id: int) -> list[ForecastOfFinal]:
    """Return what was believed of a final run's end, the oldest first."""
    query = select(ForecastOfFinal).where(ForecastOfFinal.final_id == final_id).order_by(ForecastOfFinal.id)
    return list(session.scalars(query))


def plan_of_final(plan: Plan, final: Final, trial: Trial) -> Plan:
    """Return a plan, stored nowhere, in which a final run is the one pilot, on its own layout and up to its end."""
    planned = next((candidate for candidate in plan.candidates if candidate.id == trial.candidate_id), None)
    only = Candidate(
        id=trial.candidate_id,
        rank=1,
        rollouts_per_prompt=trial.rollouts_per_prompt,
        prompts_per_batch=trial.prompts_per_batch,
        axes=trial.axes,
        update_steps=final.update_steps,
        pilot_steps=final.update_steps,
        segment_steps=final.segment_steps,
        gpu_hours_per_step=final.gpu_hours_per_step,
        gpu_hours_per_step_low=final.gpu_hours_per_step,
        gpu_hours_per_step_high=final.gpu_hours_per_step,
        pilot_gpu_hours=final.start_up_gpu_hours + final.update_steps * final.gpu_hours_per_step,
        learning_rate=trial.learning_rate if planned is None else planned.learning_rate,  # as planned, whatever it has
        epochs=0.0 if planned is None else planned.epochs,
        signal_fraction=1.0 if planned is None else planned.signal_fraction,
        pilot_reason="the final run",
        notes=[],
        recipe=trial.recipe,
    )
    return Plan(**values_of(plan), candidates=[only])


def switch_of(session: Session, sweep_id: int) -> tuple[str | None, dict[str, Any], str]:
    """Return what a final run is advised to switch to, with the numbers and the sentence; a None and nothing else."""
    query = select(Decision).where(Decision.sweep_id == sweep_id, Decision.action.in_((SWITCH, STAY)))
    newest = session.scalar(query.order_by(Decision.number.desc()).limit(1))
    if newest is None or newest.action == STAY:
        return None, {}, ""
    return str(newest.seen["name"]), newest.seen, newest.reason
