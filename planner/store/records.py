"""What outlives its session as plain values: the rows of a ranking."""

from dataclasses import dataclass

from planner.view import Axes

WHOLE = "step"  # what a cost record calls the seconds of a whole step, without validations and saving


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
