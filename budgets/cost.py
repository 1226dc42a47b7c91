"""The cost of one update step at (n, B), with an interval: from the phases' work and the coefficients known so far."""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from budgets.allocation import steps_for_budget
from budgets.coefficients import Coefficients, prior
from budgets.errors import InfeasibleError
from budgets.execution import Execution
from budgets.generation import evaluate_seconds, generate_seconds
from budgets.hardware import SECONDS_PER_HOUR, Gpu, Hardware
from budgets.memory import Placement, engine_sizes, require_fit, training_gpus
from budgets.signal import signal_fraction
from budgets.training import forward_seconds, sync_seconds, train_seconds
from budgets.work import (
    Phase,
    Seconds,
    StepLoad,
    reward_seconds,
    save_seconds,
    total,
)
from budgets.workload import RecipeTraits, Workload

Z90 = 1.6449  # standard deviations from the median to either end of a 90 % interval
WEIGHT_LOADING_BYTES_PER_S = 2e9


@dataclass(frozen=True)
class StepCost:
    """Seconds of one update by phase, and its GPU-hours with a 90 % interval."""

    placement: Placement
    seconds_by_phase: dict[Phase, float]
    step_seconds: float
    start_up_seconds: float
    log_sd: float
    save_every_seconds: float | None = None  # from one checkpoint to the next; None: saving is not counted

    @property
    def gpu_hours_per_step(self) -> float:
        """GPU-hours of one update, its share of the validations included."""
        return self.step_seconds * self.placement.gpus / SECONDS_PER_HOUR

    @property
    def gpu_hours_per_step_low(self) -> float:
        """Lower end of the 90 % interval."""
        return self.gpu_hours_per_step * math.exp(-Z90 * self.log_sd)

    @property
    def gpu_hours_per_step_high(self) -> float:
        """Upper end of the 90 % interval."""
        return self.gpu_hours_per_step * math.exp(Z90 * self.log_sd)

    @property
    def start_up_gpu_hours(self) -> float:
        """GPU-hours before the first update: starting, loading, and the validation at step 0."""
        return self.start_up_seconds * self.placement.gpus / SECONDS_PER_HOUR

    def gpu_hours(self, steps: int) -> float:
        """Return the GPU-hours of a run of so many steps, start-up included."""
        return self.start_up_gpu_hours + steps * self.gpu_hours_per_step

    def steps_for(self, gpu_hours: float) -> int:
        """Return the whole steps that GPU-hours pay for after start-up."""
        return steps_for_budget(gpu_hours, self.gpu_hours_per_step, self.start_up_gpu_hours)


def step_cost(
    workload: Workload,
    hardware: Hardware,
    traits: RecipeTraits,
    rollouts_per_prompt: int,
    prompts_per_batch: int,
    coefficients: Coefficients | None = None,
    *,
    parts: int = 1,
    placement: Placement | None = None,
    engine_gpus: int | None = None,
) -> StepCost:
    """Price one update of (n, B): the sum of the phases when synchronous, the slower side of the split when not.

    Without coefficients they are what published runs say of trainers at large. Without a placement it is the best one,
    or the best of which each of so many equal parts has the same split; one that is given fits, since somebody runs it.
    `engine_gpus` is the size of an inference engine, where it is known.
    """
    efficiencies = coefficients or prior(hardware.gpu)
    if placement is None:
        require_fit(workload, traits, hardware)
    signal = signal_fraction(workload.pass_rates, rollouts_per_prompt)
    load = StepLoad.of(rollouts_per_prompt, prompts_per_batch, traits, signal)
    phases_on = partial(phase_seconds, workload, hardware.gpu, traits=traits, load=load, coefficients=efficiencies)
    if placement is None and traits.asynchronous:
        splits = _splits(workload, hardware, traits, rollouts_per_prompt * prompts_per_batch, parts)
        placement = _fastest(splits, phases_on)
    elif placement is None:
        placement = Placement(hardware.gpus_per_trial, hardware.gpus_per_trial, colocated=True)
    placement = replace(placement, engine_gpus=engine_gpus or placement.engine_gpus)
    phases = phases_on(placement)
    decisive = decisive_seconds(phases, traits)
    step_seconds = total(decisive)
    return StepCost(
        placement=placement,
        seconds_by_phase={phase: total(seconds) for phase, seconds in phases.items()},
        step_seconds=step_seconds,
        start_up_seconds=_start_up_seconds(
            workload.under(traits), hardware.gpu, placement, efficiencies, traits.execution
        ),
        log_sd=efficiencies.log_sd(decisive),
        save_every_seconds=_saves(workload, hardware.gpu, placement.trainer_gpus, traits.execution, efficiencies)[1],
    )


def phase_seconds(
    workload: Workload, gpu: Gpu, placement: Placement, traits: RecipeTraits, load: StepLoad, coefficients: Coefficients
) -> dict[Phase, Seconds]:
    """Return the expected seconds of each phase, split by what they are proportional to."""
    workload, generators, trainers = workload.under(traits), placement.generator_gpus, placement.trainer_gpus
    engine = placement.engine_gpus
    evaluation = evaluate_seconds(workload, gpu, generators, engine, traits.execution)
    synced = sync_seconds(workload, gpu, placement, traits.execution)
    batches = 1 if gpu.one_process else traits.updates_per_batch
    # Of a recipe that refills groups this counts the refills too, and prices a few validations too many.
    every = workload.validation.steps_between(round(load.generated), traits.updates_per_batch)
    scored = forward_seconds(workload, gpu, trainers, load.trained, traits.execution)
    phases = {
        Phase.GENERATE: generate_seconds(workload, gpu, generators, load, traits, engine),
        Phase.REWARD: reward_seconds(load, traits),
        Phase.OLD_LOG_PROBS: scored if traits.old_log_probs else {},
        Phase.REFERENCE: scored if traits.reference_pass else {},
        Phase.TRAIN: train_seconds(workload, gpu, trainers, load, traits),
        Phase.SYNC: {driver: seconds / batches for driver, seconds in synced.items()},
        Phase.EVALUATE: {driver: seconds / every for driver, seconds in evaluation.items()},
    }
    phases = {phase: coefficients.apply(seconds) for phase, seconds in phases.items()}
    whole, apart = _saves(workload, gpu, trainers, traits.execution, coefficients)
    if apart is not None:
        saves = min(1.0, total(decisive_seconds(phases, traits)) / apart)  # a step: no more than one
        phases[Phase.SAVE] = {driver: saves * seconds for driver, seconds in whole.items()}
    return phases


def _saves(
    workload: Workload, gpu: Gpu, trainers: int, execution: Execution, coefficients: Coefficients
) -> tuple[Seconds, float | None]:
    """Return the seconds of a checkpoint, and those from one to the next; None where saving is not counted."""
    if execution.save_seconds is None:
        return {}, None
    whole = coefficients.apply(save_seconds(workload, gpu, trainers, execution))
    least = 0.0 if execution.save_share is None else total(whole) / execution.save_share
    return whole, max(execution.save_seconds, least)


GENERATOR_SIDE = (Phase.GENERATE, Phase.REWARD, Phase.SYNC, Phase.EVALUATE)
TRAINER_SIDE = (Phase.OLD_LOG_PROBS, Phase.REFERENCE, Phase.TRAIN)


def decisive_seconds(phases: Mapping[Phase, Seconds], traits: RecipeTraits) -> Seconds:
    """Merge the phases that a step waits for: all of them, or the slower side of a split; a save stops both."""
    if not traits.asynchronous:
        return _merged(phases, tuple(phases))
    slower = max((GENERATOR_SIDE, TRAINER_SIDE), key=lambda side: total(_merged(phases, side)))
    return _merged(phases, (*slower, Phase.SAVE))


def _merged(phases: Mapping[Phase, Seconds], chosen: tuple[Phase, ...]) -> Seconds:
    merged: Seconds = {}
    for phase in chosen:
        for driver, seconds in phases.get(phase, {}).items():
            merged[driver] = merged.get(driver, 0.0) + seconds
    return merged


def _fastest(splits: Sequence[Placement], phases_on: Callable[[Placement], Mapping[Phase, Seconds]]) -> Placement:
    """Return the split whose slower side is fastest, of some with rising numbers of trainers.

    Generators lose and trainers gain with each GPU moved over, so bisection finds the crossing: a thousand GPUs cost
    ten evaluations.
    """

    def sides(split: Placement) -> tuple[float, float]:
        phases = phases_on(split)
        return total(_merged(phases, GENERATOR_SIDE)), total(_merged(phases, TRAINER_SIDE))

    crossing = bisect_left(splits[:-1], True, key=lambda split: sides(split)[1] <= sides(split)[0])
    return min(splits[max(0, crossing - 1) : crossing + 1], key=lambda split: max(sides(split)))


def _splits(
    workload: Workload, hardware: Hardware, traits: RecipeTraits, rollouts: int, parts: int
) -> Sequence[Placement]:
    """List who may train: GPUs with as many of the rollouts each, on several nodes whole ones.

    So does a pilot run, a part, and the final run, all of them. Where no number has equal shares, whole nodes do for
    some trainers; where none is whole nodes, the price is of what no trainer runs.
    """
    if hardware.gpus_per_trial % parts:
        raise InfeasibleError(f"{hardware.gpus_per_trial} GPUs are not {parts} equal parts")
    gpus = hardware.gpus_per_trial // parts
    unit = min(engine_sizes(workload, hardware.gpu, gpus, traits.execution), default=gpus)
    fewest = training_gpus(workload, traits, hardware.gpu)
    if fewest is None or gpus - fewest < unit:
        raise InfeasibleError(f"{gpus} {hardware.gpu.name} leave no room for a generator beside the trainer")
    fitting = [trainers for trainers in range(fewest, gpus) if (gpus - trainers) % unit == 0]
    alone, joint = (hardware.gpu.training_unit(count * gpus) for count in (1, parts))
    whole = [trainers for trainers in fitting if trainers % alone == 0 and parts * trainers % joint == 0]
    equal = [trainers for trainers in whole if rollouts % (parts * trainers) == 0]
    return [Placement(parts * (gpus - share), parts * share, colocated=False) for share in equal or whole or fitting]


def _start_up_seconds(
    workload: Workload, gpu: Gpu, placement: Placement, coefficients: Coefficients, execution: Execution
) -> float:
    loading = workload.model.weight_bytes / WEIGHT_LOADING_BYTES_PER_S
    first_validation = evaluate_seconds(workload, gpu, placement.generator_gpus, execution=execution)
    return gpu.start_up_s + loading + total(coefficients.apply(first_validation))
