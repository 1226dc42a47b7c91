"""The configuration of one trial: plain checked data that travels to a worker and is stored beside the results."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from budgets.growth import Growth
from planner.config.task import TaskSection
from planner.config.trainer import TrainerChoice
from planner.recipes.schema import Recipe
from planner.tables import Count, Positive, Section
from runner.ports.simulation import SimulationChoice


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
        known = _growth(growth)
        return None if known is None else known.name

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
