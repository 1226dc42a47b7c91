"""What callers hand to the store: one frozen dataclass per kind of row, without ids and names that the store gives."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from planner.view import Axes


@dataclass(frozen=True)
class NewPlan:
    """A plan as proposed; the store adds its name and when it was made."""

    budget_gpu_hours: float
    pilot_gpu_hours: float
    final_gpu_hours: float
    recipe: str
    difficulty: str
    workload: dict[str, Any]
    hardware: dict[str, Any]
    config: dict[str, Any]
    assumptions: list[Any]
    outlook: list[Any]
    rlplan_version: str


@dataclass(frozen=True)
class NewCandidate:
    """One allocation of a plan."""

    rank: int
    rollouts_per_prompt: int
    prompts_per_batch: int
    update_steps: int
    pilot_steps: int
    gpu_hours_per_step: float
    gpu_hours_per_step_low: float
    gpu_hours_per_step_high: float
    segment_steps: int
    pilot_gpu_hours: float
    learning_rate: float
    epochs: float
    signal_fraction: float
    pilot_reason: str
    expected_score: float | None = None
    score_low: float | None = None
    score_high: float | None = None
    notes: list[Any] = field(default_factory=list)
    axes: Axes = ()
    recipe: str | None = None  # the plan's, where none is named
    pilot_gpu_hours_per_step: float | None = None  # on a pilot's GPUs, where these are others


@dataclass(frozen=True)
class NewSweep:
    """A sweep about to run."""

    policy: str
    seed: int
    config: dict[str, Any]
    config_hash: str
    code_hash: str | None = None


@dataclass(frozen=True)
class NewTrial:
    """A trial about to be planned; allocation, axes, recipe, learning rate and seed identify it within its sweep."""

    name: str
    rollouts_per_prompt: int
    prompts_per_batch: int
    learning_rate: float
    recipe: str
    seed: int
    config: dict[str, Any]
    candidate_id: int | None = None
    axes: Axes = ()


@dataclass(frozen=True)
class NewSegment:
    """A stretch of training with the GPU-hours reserved for it."""

    number: int
    from_step: int
    to_step: int
    reserved_gpu_hours: float
    worker: str | None = None


@dataclass(frozen=True)
class NewPoint:
    """One evaluation; a score that is not a finite number is stored as absent."""

    trial_id: int
    attempt: int
    optimizer_step: int
    rollouts: int
    tokens: int
    seconds: float
    gpu_hours: float
    score: float | None = None
    score_standard_error: float | None = None
    metrics: dict[str, Any] | None = None
    segment_id: int | None = None
    further_scores: dict[str, Any] | None = None
    compared_gpu_hours: float | None = None


@dataclass(frozen=True)
class NewCharge:
    """GPU-hours of a worker that belong to no segment: `kind` is idle or lost."""

    at: datetime
    worker: str
    kind: str
    gpu_hours: float


@dataclass(frozen=True)
class NewFit:
    """What a trial's curve is believed to be."""

    trial_id: int
    made_at: datetime
    model: str
    verdict: str
    upto_gpu_hours: float
    target_gpu_hours: float
    parameters: dict[str, Any]
    predicted_mean: float
    predicted_low: float
    predicted_high: float
    level: float
    fit_milliseconds: float
    probability_best: float | None = None


@dataclass(frozen=True)
class NewDecision:
    """A decision, the one sentence that explains it, and the numbers it rested on."""

    at: datetime
    action: str
    reason: str
    trial_id: int | None = None
    seen: dict[str, Any] = field(default_factory=dict)
    alternatives: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class NewRecommendation:
    """The allocation recommended for the rest of the budget."""

    made_at: datetime
    rollouts_per_prompt: int
    prompts_per_batch: int
    update_steps: int
    learning_rate: float
    recipe: str
    expected_score: float
    score_low: float
    score_high: float
    probability_best: float
    expected_regret: float
    gpu_hours_to_target: float
    details: dict[str, Any] = field(default_factory=dict)
    axes: Axes = ()


@dataclass(frozen=True, kw_only=True)
class RankedRow:
    """One row of a ranked list, as it is stored under a recommendation and read again."""

    rank: int
    rollouts_per_prompt: int
    prompts_per_batch: int
    update_steps: int
    learning_rate: float
    recipe: str
    expected_score: float | None = None
    score_low: float | None = None
    score_high: float | None = None
    probability_best: float | None = None
    gpu_hours_spent: float
    gpu_hours_to_target: float
    status: str
    axes: Axes = ()


WHOLE = "step"  # what a cost record calls the seconds of a whole step, without validations and saving


@dataclass(frozen=True)
class NewCostRecord:
    """Seconds per phase that one step was measured to take; of a run elsewhere, where it came from."""

    at: datetime
    gpu: str
    generator_gpus: int
    trainer_gpus: int
    colocated: bool
    model: str
    recipe: str
    rollouts_per_prompt: int
    prompts_per_batch: int
    generated_rollouts: int
    trained_rollouts: int
    mean_prompt_tokens: float
    mean_response_tokens: float
    longest_response_tokens: float
    seconds: dict[str, float]
    trial_id: int | None = None
    source: str | None = None
    trainer: str | None = None
    steps: int | None = None
    asynchronous: bool | None = None
    updates_per_step: int | None = None
    engine_gpus: int | None = None
    response_assumed: bool | None = None
