"""Tables of what is proposed: plans, their candidates, and the measured costs that later plans learn from."""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from planner.store.base import Base, FurtherAxes, LongText, PrimaryKey, child_of, may_refer_to


class Plan(Base):
    """One answer of `rlplan propose`: a budget, how it is split, and what it rests on."""

    __tablename__ = "plans"
    __table_args__ = (
        CheckConstraint("budget_gpu_hours > 0", name="budget"),
        CheckConstraint("pilot_gpu_hours >= 0", name="pilot"),
        CheckConstraint("final_gpu_hours >= 0", name="final"),
        # The factor forgives the rounding of a sum of floats, nothing more.
        CheckConstraint("pilot_gpu_hours + final_gpu_hours <= budget_gpu_hours * (1 + 1e-9)", name="split"),
    )

    id: Mapped[PrimaryKey]
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime]
    budget_gpu_hours: Mapped[float]
    pilot_gpu_hours: Mapped[float]
    final_gpu_hours: Mapped[float]
    recipe: Mapped[str]
    difficulty: Mapped[str]
    workload: Mapped[dict[str, Any]]
    hardware: Mapped[dict[str, Any]]
    config: Mapped[dict[str, Any]]
    assumptions: Mapped[list[Any]]
    outlook: Mapped[list[Any]]
    rlplan_version: Mapped[str]

    candidates: Mapped[list["Candidate"]] = relationship(
        order_by="Candidate.rank", cascade="all, delete-orphan", passive_deletes=True, lazy="raise"
    )


class Candidate(Base):
    """One allocation of a plan, with what else tells it from others, priced and ranked."""

    __tablename__ = "candidates"
    __table_args__ = (
        UniqueConstraint("plan_id", "rank"),
        UniqueConstraint(
            "plan_id",
            "rollouts_per_prompt",
            "prompts_per_batch",
            "axes",
            name="uq_candidates_configuration",  # the generated name would pass PostgreSQL's 63 characters
        ),
    )

    id: Mapped[PrimaryKey]
    plan_id: Mapped[int] = mapped_column(child_of("plans"))
    rank: Mapped[int]
    rollouts_per_prompt: Mapped[int]
    prompts_per_batch: Mapped[int]
    update_steps: Mapped[int]
    pilot_steps: Mapped[int]
    gpu_hours_per_step: Mapped[float]
    gpu_hours_per_step_low: Mapped[float]
    gpu_hours_per_step_high: Mapped[float]
    segment_steps: Mapped[int]
    pilot_gpu_hours: Mapped[float]
    learning_rate: Mapped[float]
    epochs: Mapped[float]
    signal_fraction: Mapped[float]
    expected_score: Mapped[float | None]
    score_low: Mapped[float | None]
    score_high: Mapped[float | None]
    pilot_reason: Mapped[LongText]
    notes: Mapped[list[Any]]
    recipe: Mapped[str | None]
    axes: Mapped[FurtherAxes]


class CostRecord(Base):
    """Seconds that one step was measured to take; the next plan's prices start from these."""

    __tablename__ = "cost_records"

    id: Mapped[PrimaryKey]
    at: Mapped[datetime]
    gpu: Mapped[str] = mapped_column(index=True)
    generator_gpus: Mapped[int]
    trainer_gpus: Mapped[int]
    colocated: Mapped[bool]
    model: Mapped[str]
    recipe: Mapped[str]
    rollouts_per_prompt: Mapped[int]
    prompts_per_batch: Mapped[int]
    generated_rollouts: Mapped[int]
    trained_rollouts: Mapped[int]
    mean_prompt_tokens: Mapped[float]
    mean_response_tokens: Mapped[float]
    longest_response_tokens: Mapped[float]
    seconds: Mapped[dict[str, Any]]
    trial_id: Mapped[int | None] = mapped_column(may_refer_to("trials"))
