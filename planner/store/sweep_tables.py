"""Tables of what is run: sweeps and what is asked of them, trials, their segments, points and changes of state."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from planner.store.base import Base, FurtherAxes, Large, LongText, PrimaryKey, child_of, may_refer_to, one_of
from planner.trials import TrialState


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
    RELEASED = "released"


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


class Trial(Base):
    """One run of one allocation, with what else tells it from others, with one seed."""

    __tablename__ = "trials"
    # A sweep that is launched again names the same trials again; this makes that find them instead of doubling them.
    __table_args__ = (
        UniqueConstraint(
            "sweep_id",
            "rollouts_per_prompt",
            "prompts_per_batch",
            "recipe",
            "learning_rate",
            "seed",
            "axes",
            name="uq_trials_identity",  # the generated name would pass PostgreSQL's 63 characters
        ),
    )

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


class Point(Base):
    """One evaluation of a trial; the key makes a resent point the same point."""

    __tablename__ = "points"

    # In this order the key is also the index that yields a trial's points by step, the newest attempt last.
    trial_id: Mapped[int] = mapped_column(child_of("trials"), primary_key=True)
    optimizer_step: Mapped[int] = mapped_column(primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    segment_id: Mapped[int | None] = mapped_column(may_refer_to("segments"))
    rollouts: Mapped[Large]
    tokens: Mapped[Large]
    seconds: Mapped[float]
    gpu_hours: Mapped[float]
    score: Mapped[float | None]
    score_standard_error: Mapped[float | None]
    metrics: Mapped[dict[str, Any] | None]
    further_scores: Mapped[dict[str, Any] | None]


class Transition(Base):
    """One change of a trial's state; the first has no state before it."""

    __tablename__ = "transitions"

    id: Mapped[PrimaryKey]
    trial_id: Mapped[int] = mapped_column(child_of("trials"), index=True)
    from_state: Mapped[TrialState | None] = mapped_column(one_of(TrialState, "from_state"))
    to_state: Mapped[TrialState] = mapped_column(one_of(TrialState, "to_state"))
    at: Mapped[datetime]
    reason: Mapped[LongText]
