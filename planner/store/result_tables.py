"""Tables of what is concluded: fits of curves, decisions, recommendations and the rankings under them."""

from datetime import datetime
from typing import Any

from sqlalchemy import UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from planner.store.base import Base, FurtherAxes, LongText, PrimaryKey, child_of, may_refer_to


class Fit(Base):
    """What one trial's curve was believed to be at one moment."""

    __tablename__ = "fits"

    id: Mapped[PrimaryKey]
    trial_id: Mapped[int] = mapped_column(child_of("trials"), index=True)
    made_at: Mapped[datetime]
    model: Mapped[str]
    verdict: Mapped[str]
    upto_gpu_hours: Mapped[float]
    target_gpu_hours: Mapped[float]
    parameters: Mapped[dict[str, Any]]
    predicted_mean: Mapped[float]
    predicted_low: Mapped[float]
    predicted_high: Mapped[float]
    level: Mapped[float]
    fit_milliseconds: Mapped[float]
    probability_best: Mapped[float | None]


class Decision(Base):
    """One decision of the policy, with what it saw and what else it could have done."""

    __tablename__ = "decisions"
    __table_args__ = (UniqueConstraint("sweep_id", "number"),)

    id: Mapped[PrimaryKey]
    sweep_id: Mapped[int] = mapped_column(child_of("sweeps"))
    number: Mapped[int]
    at: Mapped[datetime]
    action: Mapped[str]
    trial_id: Mapped[int | None] = mapped_column(may_refer_to("trials"))
    reason: Mapped[LongText]
    seen: Mapped[dict[str, Any]]
    alternatives: Mapped[list[Any]]


class Recommendation(Base):
    """The allocation that a sweep recommends for the rest of the budget."""

    __tablename__ = "recommendations"

    id: Mapped[PrimaryKey]
    sweep_id: Mapped[int] = mapped_column(child_of("sweeps"), index=True)
    made_at: Mapped[datetime]
    rollouts_per_prompt: Mapped[int]
    prompts_per_batch: Mapped[int]
    update_steps: Mapped[int]
    learning_rate: Mapped[float]
    recipe: Mapped[str]
    expected_score: Mapped[float]
    score_low: Mapped[float]
    score_high: Mapped[float]
    probability_best: Mapped[float]
    expected_regret: Mapped[float]
    gpu_hours_to_target: Mapped[float]
    details: Mapped[dict[str, Any]]
    axes: Mapped[FurtherAxes]

    rankings: Mapped[list["Ranking"]] = relationship(
        order_by="Ranking.rank", cascade="all, delete-orphan", passive_deletes=True, lazy="raise"
    )


class Ranking(Base):
    """One row of the ranked list that a recommendation rested on."""

    __tablename__ = "rankings"

    recommendation_id: Mapped[int] = mapped_column(child_of("recommendations"), primary_key=True)
    rank: Mapped[int] = mapped_column(primary_key=True)
    rollouts_per_prompt: Mapped[int]
    prompts_per_batch: Mapped[int]
    update_steps: Mapped[int]
    learning_rate: Mapped[float]
    recipe: Mapped[str]
    expected_score: Mapped[float | None]
    score_low: Mapped[float | None]
    score_high: Mapped[float | None]
    probability_best: Mapped[float | None]
    gpu_hours_spent: Mapped[float]
    gpu_hours_to_target: Mapped[float]
    status: Mapped[str]
    axes: Mapped[FurtherAxes]
