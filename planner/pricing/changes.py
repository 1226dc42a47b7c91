"""What one change to a configuration would do to its price, the best first."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from budgets.errors import InfeasibleError, InputError
from budgets.hardware import Hardware
from planner.pricing.one import Asked, Price, price

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
    found = [_change(before, what, asked) for what, asked in _asked(before.asked)]
    return sorted(found, key=lambda each: -1e9 if each.saved is None else each.saved, reverse=True)


def _asked(asked: Asked) -> Iterator[tuple[str, Asked]]:
    gpus, traits = asked.hardware.gpus_per_trial, asked.traits
    yield f"{2 * gpus} GPUs", replace(asked, hardware=_on(asked.hardware, 2 * gpus))
    if gpus > 1:
        yield f"{gpus // 2} {'GPU' if gpus < 4 else 'GPUs'}", replace(asked, hardware=_on(asked.hardware, gpus // 2))
    if traits.asynchronous:
        yield "synchronous", replace(asked, traits=replace(traits, staleness_bound=0))
    elif traits.updates_per_batch == 1:
        yield "asynchronous", replace(asked, traits=replace(traits, staleness_bound=STALENESS))
    yield from _executions(asked)
    yield f"n = {2 * asked.rollouts_per_prompt}", replace(asked, rollouts_per_prompt=2 * asked.rollouts_per_prompt)
    yield f"B = {2 * asked.prompts_per_batch}", replace(asked, prompts_per_batch=2 * asked.prompts_per_batch)


def _executions(asked: Asked) -> Iterator[tuple[str, Asked]]:
    """Yield what trainers on GPUs offer beside the layout, where it is not there yet."""
    gpu, traits, execution = asked.hardware.gpu, asked.traits, asked.traits.execution
    if not execution.fp8_rollouts and gpu.fp8_times > 1:
        yield "fp8 rollouts", replace(asked, traits=replace(traits, execution=replace(execution, fp8_rollouts=True)))
    if execution.lora_rank is None and not gpu.one_process:
        adapted = replace(execution, lora_rank=LORA_RANK)
        yield f"LoRA, rank {LORA_RANK}", replace(asked, traits=replace(traits, execution=adapted))
    if not execution.packing:
        yield "packing", replace(asked, traits=replace(traits, execution=replace(execution, packing=True)))


def _on(hardware: Hardware, gpus: int) -> Hardware:
    return Hardware(hardware.gpu, max(gpus, hardware.gpus), gpus)


def _change(before: Price, what: str, asked: Asked) -> Change:
    try:
        after = price(asked)
    except (InfeasibleError, InputError) as error:
        return Change(what, None, str(error), None, None)
    old, new = before.gpu_seconds_per_rollout, after.gpu_seconds_per_rollout
    gpus = after.cost.placement.gpus / before.cost.placement.gpus
    return Change(what, after, None, 1 - new / old, gpus * old / new)
