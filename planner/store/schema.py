"""All tables: what is proposed, what is run and what is concluded."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column, relationship

from planner.store.base import Base, FurtherAxes, Large, LongText, PrimaryKey, child_of, may_refer_to, one_of
from planner.view import TrialState


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
    notes: Mapped[list[Any]] = mapped_column(default=list)
    recipe: Mapped[str | None]
    axes: Mapped[FurtherAxes]
    pilot_gpu_hours_per_step: Mapped[float | None]

    @property
    def pilot_price(self) -> float:
        """GPU-hours of a step on a pilot's GPUs; plans of given rows have those of the final run alone."""
        return self.gpu_hours_per_step if self.pilot_gpu_hours_per_step is None else self.pilot_gpu_hours_per_step

    @property
    def compared_per_pilot_gpu_hour(self) -> float:
        """GPU-hours that the final run takes for the updates of one GPU-hour of a pilot."""
        return self.gpu_hours_per_step / self.pilot_price


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
    trial_id: Mapped[int | None] = mapped_column(may_refer_to("trials"), index=True)
    source: Mapped[LongText | None]
    trainer: Mapped[str | None]
    steps: Mapped[int | None]
    asynchronous: Mapped[bool | None]
    updates_per_step: Mapped[int | None]
    engine_gpus: Mapped[int | None]
    response_assumed: Mapped[bool | None]


class SweepStatus(StrEnum):
    """Where a sweep stands."""

    CREATED = "created"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    FAILED = "failed"


class SegmentOutcome(StrEnum):
    """How a segment ended; reserved means that it has not ended."""

    RESERVED = "reserved"
    COMMITTED = "committed"
    FAILED = "failed"
    LOST = "lost"


class RequestKind(StrEnum):
    """What a running sweep can be asked for."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"


class Sweep(Base):
    """One run of a plan's pilots, and which process drives it."""

    __tablename__ = "sweeps"

    id: Mapped[PrimaryKey]
    plan_id: Mapped[int] = mapped_column(child_of("plans"), index=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime]
    finished_at: Mapped[datetime | None]
    status: Mapped[SweepStatus] = mapped_column(one_of(SweepStatus, "status"))
    policy: Mapped[str]
    seed: Mapped[Large]
    config: Mapped[dict[str, Any]]
    config_hash: Mapped[str]
    code_hash: Mapped[str | None]
    driver_id: Mapped[str | None]
    driver_host: Mapped[str | None]
    driver_pid: Mapped[int | None]
    heartbeat_at: Mapped[datetime | None]


class Charge(Base):
    """GPU-hours of a worker that belong to no segment."""

    __tablename__ = "charges"

    id: Mapped[PrimaryKey]
    sweep_id: Mapped[int] = mapped_column(child_of("sweeps"), index=True)
    at: Mapped[datetime]
    worker: Mapped[str]
    kind: Mapped[str]
    gpu_hours: Mapped[float]


class Request(Base):
    """What somebody asked of a sweep that was being driven, and what came of it."""

    __tablename__ = "requests"
    __table_args__ = (Index(None, "sweep_id", "ended_at"),)  # its driver looks for what has not ended twice a second

    id: Mapped[PrimaryKey]
    sweep_id: Mapped[int] = mapped_column(child_of("sweeps"))
    at: Mapped[datetime]
    kind: Mapped[RequestKind] = mapped_column(one_of(RequestKind, "kind"))
    by: Mapped[str]
    taken_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    note: Mapped[LongText | None]


# A sweep that is launched again names the same trials again; this makes that find them instead of doubling them.
IDENTITY = ("sweep_id", "rollouts_per_prompt", "prompts_per_batch", "recipe", "learning_rate", "seed", "axes")


class Trial(Base):
    """One run of one allocation, with what else tells it from others, with one seed."""

    __tablename__ = "trials"
    # The generated name would pass PostgreSQL's 63 characters.
    __table_args__ = (UniqueConstraint(*IDENTITY, name="uq_trials_identity"),)

    id: Mapped[PrimaryKey]
    sweep_id: Mapped[int] = mapped_column(child_of("sweeps"))
    candidate_id: Mapped[int | None] = mapped_column(may_refer_to("candidates"), index=True)
    name: Mapped[str]
    rollouts_per_prompt: Mapped[int]
    prompts_per_batch: Mapped[int]
    learning_rate: Mapped[float]
    recipe: Mapped[str]
    seed: Mapped[Large]
    config: Mapped[dict[str, Any]]
    state: Mapped[TrialState] = mapped_column(one_of(TrialState, "state"))
    attempt: Mapped[int]
    gpu_hours_spent: Mapped[float] = mapped_column(default=0.0)
    checkpoint_path: Mapped[LongText | None]
    failure_class: Mapped[str | None]
    failure_tail: Mapped[LongText | None]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    axes: Mapped[FurtherAxes]


class Segment(Base):
    """A stretch of training that a trial was granted, with the GPU-hours reserved and charged."""

    __tablename__ = "segments"
    __table_args__ = (UniqueConstraint("trial_id", "number", "attempt"),)

    id: Mapped[PrimaryKey]
    trial_id: Mapped[int] = mapped_column(child_of("trials"))
    number: Mapped[int]
    attempt: Mapped[int]
    from_step: Mapped[int]
    to_step: Mapped[int]
    reserved_gpu_hours: Mapped[float]
    charged_gpu_hours: Mapped[float | None]
    worker: Mapped[str | None]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    outcome: Mapped[SegmentOutcome] = mapped_column(one_of(SegmentOutcome, "outcome"))
    start_up_gpu_hours: Mapped[float | None]


class Point(Base):
    """One evaluation of a trial; the key makes a resent point the same point."""

    __tablename__ = "points"

    # In this order the key is also the index that yields a trial's points by step, the newest attempt last.
    trial_id: Mapped[int] = mapped_column(child_of("trials"), primary_key=True)
    optimizer_step: Mapped[int] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    segment_id: Mapped[int | None] = mapped_column(may_refer_to("segments"), index=True)
    rollouts: Mapped[Large]
    tokens: Mapped[Large]
    seconds: Mapped[float]
    gpu_hours: Mapped[float]
    score: Mapped[float | None]
    score_standard_error: Mapped[float | None]
    metrics: Mapped[dict[str, Any] | None]
    further_scores: Mapped[dict[str, Any] | None]
    compared_gpu_hours: Mapped[float | None]


class Transition(Base):
    """One change of a trial's state; the first has no state before it."""

    __tablename__ = "transitions"

    id: Mapped[PrimaryKey]
    trial_id: Mapped[int] = mapped_column(child_of("trials"), index=True)
    from_state: Mapped[TrialState | None] = mapped_column(one_of(TrialState, "from_state"))
    to_state: Mapped[TrialState] = mapped_column(one_of(TrialState, "to_state"))
    at: Mapped[datetime]
    reason: Mapped[LongText]


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
    trial_id: Mapped[int | None] = mapped_column(may_refer_to("trials"), index=True)
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
    details: Mapped[dict[str, Any]] = mapped_column(default=dict)
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
