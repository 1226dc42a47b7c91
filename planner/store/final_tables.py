"""The tables of final runs: each is driven as a sweep of one trial, and held against what was promised of it."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from planner.store.base import Base, PrimaryKey, child_of, may_refer_to


class Final(Base):
    """The final run of a sweep, with the promise that was made at its launch; the row never changes.

    The band holds [share of the run, median, low, high]; the GPU-hours are those of the whole run, without what a pilot
    has trained of it.
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
