"""The price of one configuration: a step's seconds and GPU-hours by phase, what limits it, and what a change does."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from budgets.coefficients import Coefficients
from budgets.cost import Z90, StepCost, phase_seconds, step_cost
from budgets.errors import InfeasibleError, InputError
from budgets.hardware import SECONDS_PER_HOUR, Hardware
from budgets.memory import CHUNKED, Placement
from budgets.memory_plan import Demand, Means, MemoryPlan, plan_memory
from budgets.signal import signal_fraction
from budgets.work import Driver, Phase, StepLoad, total
from budgets.workload import RecipeTraits, Workload

# What a phase waits for, by the driver that takes most of its time.
LIMITS: dict[Driver, str] = {
    Driver.DECODE_OVERHEAD: "one decoding step after another",
    Driver.DECODE_BANDWIDTH: "memory bandwidth",
    Driver.DECODE_COMPUTE: "arithmetic",
    Driver.PREFILL_COMPUTE: "arithmetic, reading prompts",
    Driver.REWARD: "scoring",
    Driver.TRAIN_COMPUTE: "arithmetic",
    Driver.FIXED: "fixed seconds of a step",
    Driver.WEIGHT_SYNC: "moving weights",
    Driver.EXPERTS: "sending tokens to experts",
    Driver.SAVING: "writing checkpoints",
    Driver.GATHERING: "gathering weights",
    Driver.OFFLOADING: "the optimizer on the CPU",
    Driver.TOOLS: "the environment",
}
Interval = tuple[float, float, float]  # median, and the ends of the 90 % interval
LONG_TAIL = 3.0  # times the mean that the longest response takes, from which on the step waits for it


def interval_of(median: float, log_sd: float) -> Interval:
    """Return a median with its 90 % interval, which is as wide either way as a factor."""
    factor = math.exp(Z90 * log_sd)
    return median, median / factor, median * factor


@dataclass(frozen=True, slots=True)
class PriceQuery:
    """One configuration as it is to be priced."""

    workload: Workload
    hardware: Hardware
    traits: RecipeTraits
    rollouts_per_prompt: int
    prompts_per_batch: int  # of an update: a batch has those of all its updates
    coefficients: Coefficients = field(default_factory=Coefficients)
    placement: Placement | None = None  # None: the best one; one that is given is not asked whether it fits

    def __post_init__(self) -> None:
        if min(self.rollouts_per_prompt, self.prompts_per_batch) < 1:
            raise InputError(
                f"n = {self.rollouts_per_prompt} and B = {self.prompts_per_batch}: a step has at least 1 rollout per "
                "prompt (-n) and 1 prompt (-B)"
            )

    @property
    def rollouts(self) -> int:
        """Rollouts that an update is asked for."""
        return self.rollouts_per_prompt * self.prompts_per_batch

    @property
    def load(self) -> StepLoad:
        """The rollouts that are generated and trained on."""
        signal = signal_fraction(self.workload.pass_rates, self.rollouts_per_prompt)
        return StepLoad.of(self.rollouts_per_prompt, self.prompts_per_batch, self.traits, signal)

    @property
    def tokens(self) -> dict[str, float]:
        """Tokens of a step as services charge for them: each rollout's prompt is read, and trained on, by itself."""
        workload, load = self.workload.under(self.traits), self.load
        prompt, response = workload.prompt_tokens, workload.responses.mean
        whole = load.trained * (prompt + response)
        return {"prefill": load.generated * prompt, "sample": load.generated * response, "train": whole}

    def cost(self) -> StepCost:
        """Price a step of it."""
        return step_cost(
            self.workload,
            self.hardware,
            self.traits,
            self.rollouts_per_prompt,
            self.prompts_per_batch,
            self.coefficients,
            placement=self.placement,
        )


@dataclass(frozen=True, slots=True)
class PhasePrice:
    """A part of a step: its seconds with a 90 % interval, and what it waits for."""

    phase: str
    median: float
    low: float
    high: float
    limit: str


@dataclass(frozen=True)
class Price:
    """A configuration with what a step of it costs."""

    asked: PriceQuery
    cost: StepCost

    @property
    def factor(self) -> float:
        """The 90 % interval as a factor either way."""
        return math.exp(Z90 * self.cost.log_sd)

    @property
    def seconds(self) -> Interval:
        """Median, low and high of the seconds of a step."""
        return interval_of(self.cost.step_seconds, self.cost.log_sd)

    @property
    def gpu_hours(self) -> Interval:
        """Median, low and high of the GPU-hours of a step."""
        cost = self.cost
        return cost.gpu_hours_per_step, cost.gpu_hours_per_step_low, cost.gpu_hours_per_step_high

    @property
    def gpu_seconds_per_rollout(self) -> float:
        """What one of the rollouts that were asked for takes, on all GPUs together: what batches compare by."""
        return self.cost.step_seconds * self.cost.placement.gpus / self.asked.rollouts

    @property
    def tokens_per_second_per_gpu(self) -> float:
        """Prompt and response tokens of a batch over its time, on each GPU: how frameworks state their speed."""
        workload = self.asked.workload.under(self.asked.traits)
        tokens = self.asked.rollouts * (workload.prompt_tokens + workload.responses.mean)
        return tokens / (self.cost.step_seconds * self.cost.placement.gpus)

    @cached_property
    def memory(self) -> MemoryPlan:
        """How training and engines share the memory, with a trainer that can do all but what would take more time."""
        query, gpu, execution = self.asked, self.asked.hardware.gpu, self.asked.traits.execution
        demand = Demand(
            query.workload.model,
            query.workload.longest_sequence * (1 if execution.packing else execution.padded_to),
            self.cost.placement,
            gpu.memory_gb * 1e9,
            gpu.gpus_per_node,
            reference=query.traits.reference_pass,
            lora_rank=execution.lora_rank,
        )
        means = Means(heads=(CHUNKED,), offloads=False, sleeps=None)  # a head as `fewest_gpus` counts it
        return plan_memory(demand, replace(means, shares=None) if gpu.one_process else means)

    @property
    def memory_used(self) -> float:
        """Share of what is usable on a training GPU that states and one longest sequence take."""
        plan = self.memory
        return (plan.state_bytes + plan.activation_bytes) / self.asked.hardware.gpu.usable_bytes

    @cached_property
    def phases(self) -> tuple[PhasePrice, ...]:
        """Every phase that takes time, in the order of a step."""
        query = self.asked
        phase_times = phase_seconds(
            query.workload, query.hardware.gpu, self.cost.placement, query.traits, query.load, query.coefficients
        )
        lengths, prices = query.workload.under(query.traits).responses, []
        for phase, seconds in phase_times.items():
            if not total(seconds) > 0:
                continue
            limit = LIMITS[max(seconds, key=seconds.__getitem__)]
            if phase is Phase.GENERATE and not query.traits.asynchronous:
                longest = lengths.longest_of(query.load.generated)
                if longest > LONG_TAIL * lengths.mean:
                    limit += f", and a longest response of {longest / lengths.mean:.1f} × the mean"
            if phase is Phase.SAVE and self.cost.save_every_seconds is not None:
                limit += f", one in {self.cost.save_every_seconds / SECONDS_PER_HOUR:.2g} h"
            interval = interval_of(total(seconds), query.coefficients.log_sd(seconds))
            prices.append(PhasePrice(phase.value, *interval, limit))
        return tuple(prices)


def price(query: PriceQuery) -> Price:
    """Price a configuration; InfeasibleError, with what would mend it, where it does not fit."""
    return Price(query, query.cost())


STALENESS = 1  # updates that generators run ahead in the asynchronous variant: what frameworks start with
LORA_RANK = 32  # the least that verl's documentation recommends (docs/advance/ppo_lora.rst)


@dataclass(frozen=True, slots=True)
class Change:
    """One change: the price with it, or why it cannot be."""

    what: str
    price: Price | None
    refused: str | None
    saved: float | None  # share of the GPU-seconds of a rollout that it saves; negative: it costs more
    faster: float | None  # times as many rollouts a second


def changes(before: Price) -> list[Change]:
    """Return every change, sorted by what it saves of the price of a rollout; those that cannot be come last."""
    changed, old = [], before.gpu_seconds_per_rollout
    for description, query in _asked(before.asked):
        try:
            after = price(query)
        except (InfeasibleError, InputError) as error:
            changed.append(Change(description, None, str(error), None, None))
            continue
        new, gpus = after.gpu_seconds_per_rollout, after.cost.placement.gpus / before.cost.placement.gpus
        changed.append(Change(description, after, None, 1 - new / old, gpus * old / new))
    return sorted(changed, key=lambda change: -1e9 if change.saved is None else change.saved, reverse=True)


def _asked(query: PriceQuery) -> Iterator[tuple[str, PriceQuery]]:
    gpus, traits = query.hardware.gpus_per_trial, query.traits
    yield f"{2 * gpus} GPUs", replace(query, hardware=_on(query.hardware, 2 * gpus))
    if gpus > 1:
        yield f"{gpus // 2} {'GPU' if gpus < 4 else 'GPUs'}", replace(query, hardware=_on(query.hardware, gpus // 2))
    if traits.asynchronous:
        yield "synchronous", replace(query, traits=replace(traits, staleness_bound=0))
    elif traits.updates_per_batch == 1:
        yield "asynchronous", replace(query, traits=replace(traits, staleness_bound=STALENESS))
    yield from _executions(query)
    yield f"n = {2 * query.rollouts_per_prompt}", replace(query, rollouts_per_prompt=2 * query.rollouts_per_prompt)
    yield (
        f"B = {2 * traits.updates_per_batch * query.prompts_per_batch}",
        replace(query, prompts_per_batch=2 * query.prompts_per_batch),
    )


def _executions(query: PriceQuery) -> Iterator[tuple[str, PriceQuery]]:
    """Yield what trainers on GPUs offer beside the layout, where it is not there yet."""
    gpu, traits, execution = query.hardware.gpu, query.traits, query.traits.execution
    if not execution.fp8_rollouts and gpu.fp8_times > 1:
        yield "fp8 rollouts", replace(query, traits=replace(traits, execution=replace(execution, fp8_rollouts=True)))
    if execution.lora_rank is None and not gpu.one_process:
        adapted = replace(execution, lora_rank=LORA_RANK)
        yield f"LoRA, rank {LORA_RANK}", replace(query, traits=replace(traits, execution=adapted))
    if not execution.packing:
        yield "packing", replace(query, traits=replace(traits, execution=replace(execution, packing=True)))


def _on(hardware: Hardware, gpus: int) -> Hardware:
    return Hardware(hardware.gpu, max(gpus, hardware.gpus), gpus)
