"""How a trial fits its GPUs' memory with the trainer that it has: the plan, or what would make it fit."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from budgets import catalogue
from budgets.errors import InfeasibleError
from budgets.memory import Placement
from budgets.memory_plan import Demand, Means, MemoryPlan, plan_memory
from runner.ports.task import Task
from runner.ports.trial import TrialConfig

_MOST_GPUS, _LEAST_TOKENS = 1024, 256  # that are offered
_LORA_RANK = 32  # the least that verl's documentation recommends (docs/advance/ppo_lora.rst)


def demand_of(
    config: TrialConfig, task: Task, settings: Mapping[str, Any], *, generators: int = 0, engine_gpus: int | None = None
) -> Demand:
    """Return what a trial asks of the memory, whose last `generators` GPUs do not train; 0: all do both in turn."""
    machine = config.machine
    trainers, apart = machine.gpus - generators, generators > 0
    return Demand(
        catalogue.model(str(task.model_path)),
        task.max_prompt_tokens + task.max_response_tokens,
        Placement(generators or machine.gpus, trainers, not apart, engine_gpus),
        machine.memory_gb * 1e9,
        machine.gpus // machine.nodes,
        reference=config.recipe.objective.kl > 0,
        lora_rank=_rank(settings),
        tokens=machine.micro_batch_tokens,
    )


def require_memory(
    config: TrialConfig, demand: Demand, means: Means, plan: MemoryPlan, given: Collection[str], keys: Collection[str]
) -> None:
    """Refuse a trial that does not fit, naming what would, unless one of the plan's keys is the user's own."""
    if not plan.short_bytes or set(given) & set(keys):
        return
    assert config.trainer is not None
    gpus = config.machine.gpus
    offers = ", or ".join(_offers(demand, means)) or "a smaller model"
    raise InfeasibleError(
        f"{demand.model.name} with {demand.longest:,.0f} tokens does not fit {gpus} GPU{'s' * (gpus > 1)} of "
        f"{demand.memory / 1e9:,.0f} GB with --trainer {config.trainer.name}: each lacks "
        f"{plan.short_bytes / 1e9:,.1f} GB. Use {offers}"
    )


def _offers(demand: Demand, means: Means) -> Iterator[str]:
    """Yield what would make it fit: more GPUs, fewer tokens, adapters."""
    gpus = demand.placement.gpus
    while (gpus := 2 * gpus) <= _MOST_GPUS:
        wider = replace(demand, placement=demand.placement.on(gpus), per_node=min(gpus, max(8, demand.per_node)))
        if not plan_memory(wider, means).short_bytes:
            yield f"{gpus} GPUs"
            break
    tokens = demand.longest / 2
    while tokens >= _LEAST_TOKENS:
        if not plan_memory(replace(demand, longest=tokens, tokens=0), means).short_bytes:
            yield f"{tokens:,.0f} tokens of a prompt and its response together"
            break
        tokens /= 2
    if demand.lora_rank is None and not plan_memory(replace(demand, lora_rank=_LORA_RANK), means).short_bytes:
        yield f"LoRA of rank {_LORA_RANK} in the trainer's own settings"


def _rank(settings: Mapping[str, Any]) -> int | None:
    """Return the rank of the LoRA adapters that the user's own settings ask for."""
    ranks = (value for key, value in settings.items() if "lora" in key and key.rpartition(".")[2] in _RANKS)
    return next((int(rank) for rank in ranks if isinstance(rank, int) and rank > 0), None)


_RANKS = ("rank", "lora_rank", "dim")  # as trainers call it
