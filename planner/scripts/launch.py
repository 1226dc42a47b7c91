"""A run as its script would start it: what decides its price, and what no price depends on."""

import math
import re
from dataclasses import dataclass, replace
from typing import Any, Final

from budgets import catalogue
from budgets.allocation import Allocation
from budgets.coefficients import Coefficients
from budgets.cost import step_cost
from budgets.errors import InfeasibleError
from budgets.hardware import Hardware
from budgets.memory import Placement
from budgets.workload import RecipeTraits, Workload
from planner.config import Resolved, build_step
from planner.config.layers import DEFAULT, RATE_WAYS, collapse_single_values
from planner.config.schema import WorkloadSection
from planner.config.trainer import TRAINERS
from planner.logs.trainers import sharding
from planner.price import Price, PriceQuery, price
from planner.price.measured_runs import NO_VALIDATION
from planner.proposals.request import LearningRateRule
from planner.scripts.settings import ScriptFacts

# Prompts to train on and to validate on of data sets that examples name: GSM8K (arXiv 2110.14168), MATH (2103.03874),
# Geometry3K (2105.04165), DAPO-Math-17k (2503.14476), DeepScaleR (its blog, about 40,000).
DATASETS: Final = {
    r"gsm8k": (7473, 1319),
    r"(^|/)math([-_]lighteval)?(/|\.|$)": (7500, 5000),
    r"geo(metry)?3k": (2101, 601),
    r"dapo.math.17k\.parquet": (1_790_000, None),  # its file has each of the 17,000 about a hundred times (verl #3065)
    r"dapo.math.17k": (17_000, None),
    r"deepmath.103k": (103_000, None),
    r"openmathinstruct.2": (1_000_000, None),  # what trainers load of its 14 million
    r"deepscaler": (40_000, None),
}
# Our name in a script, and the key of the configuration that says the same.
CONFIGURED: Final = {
    "recipe": "recipe.name",
    "gpus": "hardware.gpus",
    "gpu": "hardware.gpu",
    "response_tokens": "workload.response_tokens",
    "lora_rank": "cost.lora_rank",
    "rollout_precision": "cost.rollout_precision",
    "engine_tensor_parallel": "cost.engine_gpus",
    "turns": "workload.most_turns",
    "turn_tokens": "workload.turn_tokens",
    "no_thinking": "workload.no_thinking",
    "tool_seconds": "workload.tool_seconds",
    "tool_tokens": "workload.tool_tokens",
    "validation_problems": "validation.problems",
    "validation_samples": "validation.samples",
}


_VERBATIM: Final = (  # what a launch has as the script says it
    *("micro_batch_tokens", "micro_batch_sequences", "sharding", "lr_schedule"),
    *("keep_checkpoints", "resume", "batch_rollouts", "update_rollouts", "device_batch", "device_validation"),
)
USUAL_PIXELS: Final = 640 * 480  # of an image whose size nobody says, between the least and the most of the script
SERVER: Final = "vLLM server"  # on GPUs of its own: who says so of a plan's trainer
MEAN_PROMPT: Final = WorkloadSection.model_fields["prompt_tokens"].default


@dataclass(frozen=True, slots=True)
class Launch:
    """A run that is about to start; a step of it is a batch, of which it makes `traits.updates_per_batch` updates."""

    workload: Workload
    hardware: Hardware
    traits: RecipeTraits
    coefficients: Coefficients
    rollouts_per_prompt: int
    prompts_per_batch: int
    rule: LearningRateRule
    learning_rate: float | None = None
    steps: int | None = None
    passes: int = 1  # over a batch; each has all of its updates
    placement: Placement | None = None  # None: the best split
    prompts_known: bool = False  # whether the size of the prompt set is more than a guess
    prompts_by_name: bool = False  # whether it is what the name of a public data set says
    length_known: bool = False  # whether the mean response is more than a guess
    gpu_known: bool = False  # and the kind of GPU
    rates_known: bool = False  # and the pass rates
    problems_known: bool = False  # and how many problems a validation has
    longest_prompt: float = 0.0
    micro_batch_tokens: int | None = None
    micro_batch_sequences: int | None = None
    sharding: str | None = None
    width: int = 1  # GPUs that share a sequence
    model_parallel: int | None = None  # and the weights, with Megatron
    optimizer_offload: bool = False  # for the update too
    lr_schedule: str | None = None
    schedule_steps: int | None = None
    save_every: int | None = None  # None: never
    keep_checkpoints: int | None = None  # None: all
    resume: bool | None = None
    explicit: frozenset[str] = frozenset()  # by the script itself
    trainer: str | None = None
    batch_rollouts: int | None = None  # where the script states these in place of B
    update_rollouts: int | None = None  # as the script states them; None: B over the updates of a batch
    device_batch: int | None = None  # rollouts of a GPU in a pass, where batches are stated so
    device_validation: int | None = None  # likewise of a validation
    validation_data: bool = True  # whether there are problems to validate on

    @property
    def updates(self) -> int:
        """Updates of a batch."""
        return self.passes * self.traits.updates_per_batch

    @property
    def update(self) -> Allocation:
        """What one update is made of, and how many there are; those of a step where nobody says how long the run is."""
        prompts = max(1, round(self.prompts_per_batch / self.traits.updates_per_batch))
        return Allocation(self.rollouts_per_prompt, prompts, self.updates * (self.steps or 1))

    @property
    def trainers(self) -> int:
        """GPUs that train, all where nobody says which only generate."""
        return self.hardware.gpus_per_trial if self.placement is None else self.placement.trainer_gpus

    @property
    def validates(self) -> bool:
        """Whether there are validations."""
        return self.workload.validation != NO_VALIDATION

    @property
    def rule_rate(self) -> float:
        """The learning rate that the rule has for the rollouts of an update."""
        return self.update.learning_rate(self.rule.base, self.rule.base_rollouts)

    @property
    def without_tools(self) -> "Launch":
        """The same run where nobody waits for an environment."""
        return replace(self, workload=replace(self.workload, turns=replace(self.workload.turns, tool_seconds=0.0)))

    def priced(self) -> Price:
        """Return the price of an update, with its share of validations and checkpoints."""
        step_price = price(self._query(self.traits, self._placed()))
        if self.save_every is None:
            return step_price
        apart = self.save_every * self.traits.updates_per_batch * step_price.cost.step_seconds
        saving = replace(self.traits, execution=replace(self.traits.execution, save_seconds=apart))
        return price(self._query(saving, step_price.cost.placement))

    def _query(self, traits: RecipeTraits, placement: Placement | None) -> PriceQuery:
        sizes = (self.rollouts_per_prompt, self.update.prompts_per_batch)
        return PriceQuery(self.workload, self.hardware, traits, *sizes, self.coefficients, placement)

    def _placed(self) -> Placement:
        """Return who generates and who trains; a split that nobody gave is the best, or half where none fits."""
        if self.placement is not None:
            return self.placement
        gpus = self.hardware.gpus_per_trial
        try:
            terms = (self.workload, self.hardware, self.traits)
            sizes = (self.rollouts_per_prompt, self.update.prompts_per_batch)
            return step_cost(*terms, *sizes, self.coefficients).placement
        except InfeasibleError:
            return Placement(max(1, gpus // 2), max(1, gpus - gpus // 2), colocated=False)


def configured(facts: ScriptFacts, model: str) -> dict[str, tuple[str, Any]]:
    """Return what a script says by the keys of the configuration, each with the key that said it."""
    values = {name: getattr(facts.settings, name, None) for name in CONFIGURED} | dict(facts.values)
    settings = {key: (name, values.get(name)) for name, key in CONFIGURED.items()}
    settings["cost.engine_gpus"] = (
        "engine_tensor_parallel",
        values.get("engine_tensor_parallel") or facts.split.engine_gpus,
    )
    settings["cost.training_precision"] = (
        "precision",
        "fp8" if "fp8" in str(values.get("precision")).lower() else None,
    )
    micro_batch = _micro_batch(facts, int(values.get("gpus") or 1)).get("micro_batch_sequences")
    settings["cost.micro_batch"] = ("micro_batch_sequences", micro_batch or values.get("micro_batch_sequences"))
    settings["cost.optimizer_offload"] = ("optimizer_offload", offloads_optimizer(facts))
    settings["hardware.gpus_per_trial"] = ("gpus", values.get("gpus"))
    settings["recipe.name"] = ("recipe", values.get("recipe") or "grpo")
    if facts.trainer in TRAINERS and facts.trainer == facts.maker:
        served = facts.trainer == "trl" and (facts.split.generator_gpus or any(SERVER in it for it in facts.unresolved))
        settings["trainer.name"] = (SERVER if served else "trainer", facts.trainer)
    if values.get("prompt_tokens"):  # the most that a prompt may have; its mean is a guess
        settings["workload.prompt_tokens"] = ("prompt_tokens", min(MEAN_PROMPT, values["prompt_tokens"]))
    if model and (pixels := catalogue.model(model).image_pixels):
        image_pixels = max(values.get("min_pixels") or 0, min(USUAL_PIXELS, values.get("max_pixels") or USUAL_PIXELS))
        settings["workload.image_tokens"] = ("max_pixels", image_pixels / pixels)
    prompts, problems = _sizes(values.get("dataset"))
    settings["workload.prompt_set_size"] = ("dataset", values.get("dataset_problems") or prompts)
    if not values.get("validation_problems") and problems:
        settings["validation.problems"] = ("dataset", problems)
    settings["workload.model"] = ("model", model)
    return {key: (facts.keys.get(name, name), value) for key, (name, value) in settings.items() if value}


def launch_of(facts: ScriptFacts, resolved: Resolved, steps: int | None = None) -> Launch:
    """Return the run of a script whose n and B are known; `steps` in place of the script's."""
    values, settings, resolved = facts.values, facts.settings, collapse_single_values(resolved)
    workload, hardware, traits, coefficients = build_step(resolved)
    rule, updates = resolved.config.recipe, facts.split.updates
    guesses = ("mean_response_tokens", "prompt_set_size", *RATE_WAYS)
    guessed = {key for key in guesses if resolved.source(f"workload.{key}") == DEFAULT}
    every = _positive(values.get("validation_every"))
    validation = replace(workload.validation, every_steps=int(every) * updates) if every else NO_VALIDATION
    prompts = workload.prompt_set_size if "prompt_set_size" not in guessed else None
    tensor, pipeline = (int(values.get(f"train_{kind}_parallel") or 1) for kind in ("tensor", "pipeline"))
    # The schedule and its steps must be said of one scheduler: files have one for each backend.
    scheduler, of_steps = (facts.keys.get(name, "").rpartition(".")[0] for name in ("lr_schedule", "schedule_steps"))
    return Launch(
        workload=replace(workload, validation=validation),
        hardware=hardware,
        traits=_traits(facts, traits),
        coefficients=coefficients,
        rollouts_per_prompt=settings.rollouts_per_prompt or 0,
        prompts_per_batch=settings.prompts_per_batch or 0,
        rule=LearningRateRule(rule.learning_rate, rule.learning_rate_rollouts),
        learning_rate=settings.learning_rate,
        steps=steps or _steps(facts, prompts),
        passes=max(1, int(values.get("updates_per_batch") or updates) // updates),
        placement=_placement(facts, hardware.gpus_per_trial, traits.execution.engine_gpus),
        prompts_known=prompts is not None,
        prompts_by_name=not values.get("dataset_problems")
        and resolved.source("workload.prompt_set_size") == facts.keys.get("dataset", "dataset"),
        gpu_known=resolved.source("hardware.gpu") != DEFAULT,
        length_known="mean_response_tokens" not in guessed,
        rates_known=not guessed.issuperset(RATE_WAYS),
        problems_known=resolved.source("validation.problems") != DEFAULT,
        longest_prompt=float(values.get("prompt_tokens") or workload.prompt_tokens),
        width=tensor,
        model_parallel=tensor * pipeline if "train_tensor_parallel" in values else None,
        optimizer_offload=offloads_optimizer(facts),
        save_every=int(_positive(values.get("save_every")) or 0) or None,
        **{name: values.get(name) for name in _VERBATIM} | _micro_batch(facts, hardware.gpus_per_trial),
        schedule_steps=values.get("schedule_steps") if scheduler == of_steps else None,
        explicit=frozenset(facts.keys),
        trainer=facts.trainer,
        validation_data=bool(values.get("validation_data", True)),
    )


def offloads_optimizer(facts: ScriptFacts) -> bool:
    """Tell whether the host updates what is offloaded: DeepSpeed's does, and where a key says so; verl's does not."""
    strategy, key = facts.values.get("sharding"), facts.keys.get("optimizer_offload", "")
    return bool(facts.values.get("optimizer_offload")) and (strategy in ("zero1", "zero2", "zero3") or "cpu" in key)


def _micro_batch(facts: ScriptFacts, gpus: int) -> dict[str, Any]:
    """Return a GPU's share of a micro-batch, where it is stated for all of them."""
    if not facts.keys.get("micro_batch_sequences", "").endswith("ppo_micro_batch_size"):
        return {}
    return {"micro_batch_sequences": max(1, int(facts.values.get("micro_batch_sequences") or 1) // gpus)}


def _traits(facts: ScriptFacts, traits: RecipeTraits) -> RecipeTraits:
    """Return a recipe's traits as the script has them."""
    strategy = sharding(facts.trainer or "", str(facts.values.get("sharding") or ""))
    values, reference = facts.values, traits.reference_pass and facts.settings.recipe is not None
    return replace(
        traits,
        reference_pass=reference if values.get("kl") is None else bool(values["kl"]),
        staleness_bound=max(1, int(values.get("staleness") or 1)) if facts.split.asynchronous else 0,
        updates_per_batch=facts.split.updates,
        refills_groups=bool(values.get("filter_groups", traits.refills_groups)),
        execution=replace(
            traits.execution,
            save_seconds=None,
            save_share=None,
            saves_aside=bool(values.get("save_async")) and values.get("sharding") == "megatron",
            sharding=strategy,
        ),
    )


def _placement(facts: ScriptFacts, gpus: int, engine_gpus: int | None) -> Placement | None:
    """Return who generates and who trains; None for a split that the script does not give."""
    generators, trainers, colocated = facts.split.of(gpus)
    if colocated and facts.split.asynchronous:
        return None
    return Placement(generators, trainers, colocated, engine_gpus)


def _steps(facts: ScriptFacts, prompts: int | None) -> int | None:
    """Return the steps of a script, or those of its epochs over so many prompts: whichever end first."""
    steps, epochs = _positive(facts.values.get("update_steps")), _positive(facts.values.get("epochs"))
    if epochs and prompts is not None:
        steps = min(steps or math.inf, math.floor(epochs * prompts / (facts.settings.prompts_per_batch or 1)))
    return None if steps is None else int(steps)


def _positive(value: object) -> float | None:
    """Return how many steps or passes a value says; trainers write 0, −1 and none for never."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _sizes(dataset: object) -> tuple[int | None, int | None]:
    """Return how many prompts data sets have to train on and to validate on; None where one is not known."""
    names = dataset if isinstance(dataset, list | tuple) else str(dataset or "").split(",")
    sizes = [
        next((size for mark, size in DATASETS.items() if re.search(mark, str(name).lower())), None) for name in names
    ]
    stated = [stated_size for stated_size in sizes if stated_size is not None]
    if not stated or len(stated) < len(sizes):
        return None, None
    tests = [test for _, test in stated if test is not None]
    return sum(train for train, _ in stated), sum(tests) if len(tests) == len(stated) else None
