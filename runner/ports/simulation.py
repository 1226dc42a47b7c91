"""How a trial's configuration asks for a world that is simulated instead of a GPU."""

from typing import Annotated, Literal

from pydantic import Field

from planner.tables import Count, NotNegative, Positive, Section

Probability = Annotated[float, Field(ge=0, le=1)]


class Pathologies(Section):
    """Which share of the cells (n, B), or of the runs, departs from a plain sigmoid, and how."""

    late_start: Probability = Field(0.0, description="cells without any signal until far into the rise of others")
    second_rise: Probability = Field(0.0, description="cells that rest on a plateau and rise again")
    slide: Probability = Field(0.0, description="cells that lose 5–50 % of their gain after a peak")
    crossing: Probability = Field(0.0, description="cells that rise late and end higher than their neighbours")
    collapse: Probability = Field(0.0, description="runs that fall to exactly 0 and stay there")


class Costs(Section):
    """Seconds on the worker."""

    seconds_per_update: NotNegative = Field(20.0, description="of an update, however small")
    seconds_per_rollout: Positive = Field(0.02, description="of an update, for each rollout")
    spread: NotNegative = Field(0.1, description="log standard deviation between the updates of a run")
    seconds_per_answer: NotNegative = Field(0.005, description="of a validation, for each answer")
    start_up_seconds: NotNegative = Field(60.0, description="before the first update of a trial that is not in memory")
    save_seconds: NotNegative = Field(0.0, description="of a checkpoint")


class Failures(Section):
    """What goes wrong, and how often."""

    lost_per_gpu_hour: NotNegative = Field(0.0, description="rate at which workers are lost")
    nan_per_update: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="probability of NaN in an update")
    most_rollouts: Count | None = Field(None, description="rollouts per step beyond which memory does not suffice")
    at_step: Count | None = Field(None, description="an update in which every trial fails")
    at_step_kind: str = Field("nan", description="how a trial that fails at that update says so")


class SimulationChoice(Section):
    """A response surface of (n, B) drawn from a seed."""

    seed: Annotated[int, Field(ge=0)] = Field(0, description="of the world: the same for all trials of a sweep")
    difficulty: Literal["easy", "hard"] = Field("easy", description="whose published constants the surface has")
    rollouts_scale: Positive = Field(1.0, description="how much sooner (< 1) or later than published curves rise")
    response_tokens: Count = Field(4096, description="mean length of a response, for counts of tokens")
    score_noise: Annotated[float, Field(ge=0, le=0.2)] = Field(
        0.02, description="most that a seed moves a run's asymptote; 0.02 in ScaleRL (arXiv 2510.13786, A.6)"
    )
    pathologies: Pathologies = Field(default_factory=Pathologies)
    costs: Costs = Field(default_factory=Costs)
    failures: Failures = Field(default_factory=Failures)
    sleep_seconds_per_update: NotNegative = Field(0.0, description="real seconds that a backend lets each update take")
    sleep_seconds_at_start: NotNegative = Field(0.0, description="real seconds that a backend lets a start-up take")
