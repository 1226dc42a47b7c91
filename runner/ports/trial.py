"""The configuration of one trial: plain checked data that travels to a worker and is stored beside the results."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from budgets.growth import Growth
from planner.config.task import TaskSection
from planner.config.trainer import TrainerChoice
from planner.recipes.schema import Recipe
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


class TaskChoice(TaskSection):
    """Which task, and for a user's own one, which files, model and reward."""

    name: str = Field(description="an embedded task, or the path of a JSONL file of {prompt, answer}")
    model: str | None = Field(
        None, description="a local checkpoint, or its name on the hub; an embedded task has its own"
    )
    validation_file: str | None = Field(None, description="a JSONL file of validation problems; else held out of name")
    max_response_tokens: Count | None = Field(None, description="responses are cut here; an embedded task has its own")


class ValidationPlan(Section):
    """How often and how finely the score is measured."""

    problems: Count = 128
    samples: Count = 4
    every_rollouts: Count = Field(description="generated training rollouts between validations: a cadence in compute")


class Machine(Section):
    """Where and how it runs."""

    device: Literal["cpu", "cuda"] = "cpu"
    engine: Literal["torch", "vllm"] = "torch"
    threads: Count = 1
    gpus: Count = Field(1, description="GPUs (or CPU workers) that each second of the trial occupies")
    nodes: Count = Field(1, description="machines that have equal parts of the GPUs")
    training_share: Positive | None = Field(
        None, description="of the GPUs, those that train where the others generate, as it was priced; null: half"
    )
    memory_gb: Positive = Field(80.0, description="10^9 bytes of each GPU")
    weights: Literal["float32", "bfloat16"] = Field("float32", description="format of the weights in forward passes")
    lora_rank: Count | None = Field(None, description="of the adapters that are trained; null: all weights are")
    lora_alpha: Count = Field(32, description="by which adapters are scaled, over their rank")
    micro_batch_tokens: Count = Field(16_384, description="tokens of one forward and backward pass")
    compile: bool = Field(False, description="compile the decoder with torch.compile; worth it for long runs only")

    @model_validator(mode="after")
    def _in_equal_parts(self) -> Self:
        if self.gpus % self.nodes:
            raise ValueError(
                f"gpus = {self.gpus} and nodes = {self.nodes}: every node has the same number of GPUs, so gpus must be "
                "a multiple of nodes"
            )
        return self


class TrialConfig(Section):
    """Everything that decides what a trial computes."""

    task: TaskChoice
    recipe: Recipe
    rollouts_per_prompt: Annotated[int, Field(ge=2)]
    prompts_per_batch: Count
    growth: str | None = Field(
        None, description="the batch grows to prompts_per_batch, such as 4x; null: it is constant"
    )
    learning_rate: Positive = Field(description="of the full batch; while it grows the rate follows √(n·B)")
    seed: Annotated[int, Field(ge=0)] = 0
    warmup_steps: Annotated[int, Field(ge=0)] | None = Field(None, description="instead of the recipe's")
    validation: ValidationPlan
    machine: Machine = Field(default_factory=Machine)
    simulation: SimulationChoice | None = Field(None, description="a world without GPUs that answers instead of one")
    trainer: TrainerChoice | None = Field(None, description="somebody else's trainer; null: the one of this package")

    @field_validator("growth")
    @classmethod
    def _named(cls, growth: str | None) -> str | None:
        parsed = _growth(growth)
        return None if parsed is None else parsed.name

    @model_validator(mode="after")
    def _runnable(self) -> Self:
        if self.recipe.optimizer.learning_rate_schedule != "constant":
            raise ValueError(
                f"recipe '{self.recipe.name}' has the learning-rate schedule "
                f"'{self.recipe.optimizer.learning_rate_schedule}': only 'constant' can be run, because a curve must "
                "not depend on the length of the run that it is cut from"
            )
        return self

    @property
    def driven_by(self) -> TrainerChoice:
        """Somebody else's trainer, of a trial that one trains."""
        assert self.trainer is not None
        return self.trainer

    @property
    def warmup(self) -> int:
        """Updates over which the rate rises."""
        own = self.recipe.optimizer.warmup_steps
        return own if self.warmup_steps is None else self.warmup_steps

    @property
    def rollouts_per_step(self) -> int:
        """N · B, of the full batch."""
        return self.rollouts_per_prompt * self.prompts_per_batch

    def prompts_at(self, update: int) -> int:
        """Return the prompts of an update, counted from 0; updates of one generation have the batch of the first."""
        growth, whole = _growth(self.growth), self.prompts_per_batch
        return whole if growth is None else growth.prompts(whole, self._generated_for(update))

    def learning_rate_at(self, update: int) -> float:
        """Return the rate of an update without warm-up: that of its batch by the √(n·B) rule."""
        growth, rate = _growth(self.growth), self.learning_rate
        if growth is None:
            return rate
        return growth.learning_rate(rate, self.prompts_per_batch, self._generated_for(update))

    def _generated_for(self, update: int) -> int:
        """Return the update that an update's rollouts were first generated for."""
        return update - update % self.recipe.schedule.updates_per_batch


def _growth(name: str | None) -> Growth | None:
    return None if name is None else Growth.named(name)
