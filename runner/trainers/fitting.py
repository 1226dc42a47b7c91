"""How a trial fits its GPUs' memory with the trainer that it has: the plan, or what would make it fit."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from budgets import catalogue
from budgets.errors import InfeasibleError
from budgets.memory import Placement
from budgets.memory_plan import Demand, Means, MemoryPlan, plan_memory
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.hub import model_files

_MOST_GPUS, _LEAST_TOKENS = 1024, 256  # that are offered
_LORA_RANK = 32  # the least that verl's documentation recommends (docs/advance/ppo_lora.rst)


def fitted(
    config: TrialConfig,
    task: Task,
    means: Means,
    keys: Collection[str],
    settings: Mapping[str, Any],
    *,
    generators: int = 0,
    engine_gpus: int | None = None,
    required: bool = True,
) -> MemoryPlan:
    """Return the plan of a trial whose last `generators` GPUs do not train; 0: all generate and train in turn.

    InfeasibleError names what would fit where it does not, unless one of these keys of the plan is the user's own.
    """
    machine = config.machine
    # The ranks of LoRA adapters that the user's own settings ask for.
    ranks = (value for key, value in settings.items() if "lora" in key and key.rpartition(".")[2] in _RANKS)
    rank = next((int(rank) for rank in ranks if isinstance(rank, int) and rank > 0), None)
    demand = Demand(
        replace(catalogue.model(str(model_files(task.model_path))), name=Path(task.model_path).name),
        task.max_prompt_tokens + task.max_response_tokens,
        Placement(generators or machine.gpus, machine.gpus - generators, not generators, engine_gpus),
        machine.memory_gb * 1e9,
        machine.gpus // machine.nodes,
        reference=config.recipe.objective.kl > 0,
        lora_rank=machine.lora_rank or rank,
        tokens=machine.micro_batch_tokens,
    )
    plan = plan_memory(demand, means)
    if not plan.short_bytes or not required or set(settings) & set(keys):
        return plan
    offers = ", or ".join(_offers(demand, means)) or "a smaller model"
    raise InfeasibleError(
        f"{demand.model.name} with {demand.longest:,.0f} tokens does not fit {machine.gpus} "
        f"GPU{'s' * (machine.gpus > 1)} of {demand.memory / 1e9:,.0f} GB with --trainer {config.driven_by.name}: each "
        f"lacks {plan.short_bytes / 1e9:,.1f} GB. Use {offers}"
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
        yield f"LoRA of rank {_LORA_RANK} ([cost] lora_rank)"


_RANKS = ("rank", "lora_rank", "dim")  # as trainers call it
