"""What a sweep is asked to do: plain checked data that is stored with it, so that a resumed sweep is the same sweep."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from budgets.hardware import SECONDS_PER_HOUR
from budgets.workload import Validation
from planner.axes import GROWTH, LEARNING_RATE, MODEL, RECIPE, suffix, text_of, without
from planner.config.cluster import TrackingSection
from planner.config.trainer import TrainerChoice
from planner.metrics import Kind, Metric
from planner.policy.champion import KEY, champion_of
from planner.recipes.schema import Recipe
from planner.tables import Count, Positive, Section
from planner.view import Axes, Champion, Configuration
from runner.ports.trial import Machine, TaskChoice, TrialConfig


class ValidationRule(Section):
    """How finely every trial is scored, and how often."""

    problems: Count
    samples: Count
    every_steps: Count = Field(description="updates between validations, in whole batches")
    every_rollouts: Count | None = Field(None, description="rollouts between validations instead")
    metric: Kind = Field("mean", description="what of the samples configurations are compared by")
    metric_k: Count | None = Field(None, description="samples of which the best or the worst counts; else all")

    @model_validator(mode="after")
    def _measured(self) -> Self:
        Metric.chosen(self.metric, self.metric_k, self.samples)
        return self

    @property
    def target(self) -> Metric:
        """What configurations are compared by."""
        return Metric.chosen(self.metric, self.metric_k, self.samples)

    def rollouts_between(self, rollouts_per_step: int, batch: int) -> int:
        """Return the rollouts of a trial from one validation to the next; `batch` is its updates."""
        validation = Validation(self.problems, self.samples, self.every_steps, self.every_rollouts)
        return rollouts_per_step * validation.steps_between(rollouts_per_step, batch)


class Training(Section):
    """What all trials have in common."""

    task: TaskChoice
    recipe: Recipe = Field(description="of all trials, but for those that have another on their axis")
    recipes: dict[str, Recipe] = Field({}, description="those that are compared, by their value on the axis")
    models: dict[str, str] = Field({}, description="local checkpoints that are compared, by their value on the axis")
    validation: ValidationRule
    machine: Machine = Field(default_factory=Machine)
    warmup_steps: Annotated[int, Field(ge=0)] | None = Field(None, description="instead of the recipes' own")
    simulation: dict[str, Any] | None = Field(None, description="a simulated world instead of training")
    trainer: TrainerChoice | None = Field(None, description="somebody else's trainer; null: the one of this package")


class Resources(Section):
    """What a worker occupies."""

    gpu: str = Field(description="name in the catalogue; cpu is no GPU, and a GPU-hour of it a worker-hour")
    slots: Count = Field(1, description="GPUs, or CPU workers, that each second of a worker counts for")
    cpus: Annotated[float, Field(ge=0)] = 1.0
    gpus: Annotated[float, Field(ge=0)] = 0.0

    def gpu_hours(self, seconds: float) -> float:
        """Return what so long counts for."""
        return seconds * self.slots / SECONDS_PER_HOUR

    def seconds(self, gpu_hours: float) -> float:
        """Return how long a worker takes for so much."""
        return gpu_hours * SECONDS_PER_HOUR / self.slots


def cell_name(configuration: Configuration) -> str:
    """Name what trials have in common that cost alike: those of any learning rate and seed."""
    n, B, axes = configuration
    return f"n{n}-B{B}{suffix(without(axes, LEARNING_RATE))}"


class SweepSpec(Section):
    """Everything that decides what a sweep does, apart from its trials' allocations."""

    policy: str
    search: str | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    pilot_gpu_hours: Annotated[float, Field(ge=0)] = Field(description="0 where only a final run is wanted")
    target_gpu_hours: Positive = Field(description="compute of the final run, where configurations are compared")
    champion: dict[str, Any] | None = Field(
        None, description="whose own run becomes the final run, as its plan has it; null: the whole grid is explored"
    )
    rest_to_final: bool = Field(False, description="whether what the pilots leave over lengthens the final run")
    continues_pilot: bool = Field(
        False, description="whether the final run goes on from its pilot, and is so much longer"
    )
    most_steps: Count | None = Field(
        None, description="of a final run that more would harm; null: as many as its GPU-hours pay for"
    )
    workers: Count = Field(description="segments that may run at once")
    learning_rate_range: list[Positive] | None = Field(
        None, description="least and largest factor on the rule's learning rate, between which is searched"
    )
    learnt: dict[str, Any] | None = Field(
        None, description="what earlier sweeps said, where an older rlplan stored it; nothing reads it"
    )
    retries: Annotated[int, Field(ge=0)] = Field(
        3, description="of a trial that is lost or hangs, without a newer checkpoint"
    )
    backoff_seconds: Positive = Field(2.0, description="before the first retry; doubled for each further one")
    folder: str = Field(description="of checkpoints and logs, on storage that every worker reaches")
    storage: str | None = Field(None, description="URL below which a copy of each trial lies; null: the folder is all")
    tracking: TrackingSection | None = Field(None, description="who gets a copy of every trial; null: nobody")
    resources: Resources
    final_gpus: Count | None = Field(None, description="of the final run, where pilots have others; null: theirs")
    final_nodes: Count = Field(1, description="machines that have equal parts of them")
    training_shares: dict[str, Positive] = Field(
        {}, description="of the GPUs, those that train while the others generate, as each cell of the plan is priced"
    )
    training: Training

    @property
    def champion_terms(self) -> Champion | None:
        """The champion, whose run and all challengers have the target's GPU-hours together; None where it explores."""
        return champion_of({KEY: self.champion}, self.target_gpu_hours)

    @property
    def goes_on(self) -> bool:
        """Whether a final run can go on from its pilot, which on other GPUs, or without a checkpoint, it cannot.

        A champion's own run is the final run, in a simulated world too.
        """
        simulated = self.training.trainer is None and self.training.simulation is not None
        return self.final_gpus is None and (not simulated or self.champion is not None)

    def as_final(self, config: TrialConfig) -> TrialConfig:
        """Return the configuration of a trial on the GPUs of the final run."""
        if self.final_gpus is None:
            return config
        machine = config.machine.model_copy(update={"gpus": self.final_gpus, "nodes": self.final_nodes})
        return config.model_copy(update={"machine": machine})

    def recipe(self, axes: Axes = ()) -> Recipe:
        """Return the recipe of the trials with these axes."""
        return self.training.recipes.get(text_of(axes, RECIPE) or "", self.training.recipe)

    def trains(self, axes: Axes) -> bool:
        """Whether the recipe of these axes is one of the sweep's, which leaves out what its trainer cannot do."""
        name = text_of(axes, RECIPE)
        return name is None or name in self.training.recipes or name == self.training.recipe.name

    def trial(self, configuration: Configuration, learning_rate: float, seed: int) -> TrialConfig:
        """Return what one trial of a configuration is run by."""
        n, B, axes = configuration
        common, rule = self.training, self.training.validation
        model = common.models.get(text_of(axes, MODEL) or "", common.task.model)
        recipe = self.recipe(axes)
        every = rule.rollouts_between(n * B, recipe.schedule.updates_per_batch)
        share = self.training_shares.get(cell_name(configuration))
        settings = {
            "task": common.task.model_copy(update={"model": model}),
            "recipe": recipe,
            "rollouts_per_prompt": n,
            "prompts_per_batch": B,
            "growth": text_of(axes, GROWTH),
            "learning_rate": learning_rate,
            "seed": seed,
            "warmup_steps": common.warmup_steps,
            "validation": {"problems": rule.problems, "samples": rule.samples, "every_rollouts": every},
            "machine": common.machine.model_copy(update={"training_share": share}),
            "simulation": common.simulation,
            "trainer": common.trainer,
        }
        return TrialConfig.model_validate(settings)
