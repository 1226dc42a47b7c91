"""How a trial uses its GPUs: which train and which generate, and what memory the trainer plans on them.

They do both in turn, or each their own, maybe at the same time.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from budgets import catalogue
from budgets.errors import InfeasibleError, InputError
from budgets.memory import Placement
from budgets.memory_plan import Demand, Means, MemoryPlan, plan_memory
from planner.recipes.schema import Recipe
from runner.ports.task import Task
from runner.ports.trial import TrialConfig
from runner.tasks.tokenizers import model_files

_HALF = 0.5  # of the GPUs train where no plan has priced a split
_MOST_GPUS, _LEAST_TOKENS = 1024, 256  # that are offered
_LORA_RANK = 32  # the least that verl's documentation recommends (docs/advance/ppo_lora.rst)
_RANKS = ("rank", "lora_rank", "dim")  # as trainers call it


class SplitTraits(Protocol):
    """What the split of GPUs depends on of a driver."""

    equal_shares: bool

    def is_apart(self, recipe: Recipe) -> bool:
        """Whether it generates a recipe's batches on GPUs of their own while it trains."""


def training_gpus(driver: SplitTraits, config: TrialConfig, options: Any) -> int:
    """Return how many GPUs train; the others generate. InputError for a split that there is not.

    Options name them as `train_gpus`, or as `vllm_gpus` those that generate. Where neither is given, as many train of
    an asynchronous trial as its price has, or the nearest that can.
    """
    machine, per_node = config.machine, config.machine.gpus // config.machine.nodes
    asynchronous = driver.is_apart(config.recipe)
    chosen, apart = getattr(options, "train_gpus", None), getattr(options, "vllm_gpus", 0)
    training = machine.gpus - apart if apart else chosen
    if training is None:
        training = _as_priced(driver, config, options) if asynchronous else machine.gpus
    name, option = config.driven_by.name, "vllm_gpus" if hasattr(options, "vllm_gpus") else "train_gpus"
    if chosen is not None and not asynchronous:
        raise InputError(
            f"[trainer.options] train_gpus = {chosen} with --trainer {name}: without a staleness bound all GPUs train "
            "and generate in turn. Leave it out, or take a recipe with a schedule.staleness_bound"
        )
    if not 0 < training < machine.gpus + (not asynchronous):
        raise InputError(
            f"machine.gpus = {machine.gpus}, of which {training} train, with --trainer {name}: it trains on some GPUs "
            f"and generates on others. Use at least 2 GPUs, and [trainer.options] {option} of less than all"
        )
    if machine.nodes > 1 and training % per_node:
        raise InputError(
            f"machine.gpus = {machine.gpus}, of which {training} train, with --trainer {name}: on several nodes whole "
            f"nodes train. Set [trainer.options] {option} of a multiple of {per_node}"
        )
    return training


def _as_priced(driver: SplitTraits, config: TrialConfig, options: Any) -> int:
    """Return how many GPUs train by the price, or the nearest that have whole nodes, engines and equal shares."""
    machine, engine_gpus = config.machine, getattr(options, "tensor_parallel", None) or 1
    priced = machine.gpus * (_HALF if machine.training_share is None else machine.training_share)
    least = machine.gpus // machine.nodes if machine.nodes > 1 else 1
    possible = [
        gpus
        for gpus in range(least, machine.gpus, least)
        if not (machine.gpus - gpus) % engine_gpus and not (driver.equal_shares and config.rollouts_per_step % gpus)
    ]
    # Of two that are as near the larger one trains: what the price has fits its GPUs, and fewer may not.
    return min(possible, key=lambda gpus: (abs(gpus - priced), -gpus), default=machine.gpus // 2)


@dataclass(frozen=True, slots=True)
class Share:
    """Who has which GPUs; those that generate apart are the last nodes, or the last GPUs of a single one."""

    nodes: int  # that train
    gpus_per_node: int  # of each of these
    engine_nodes: int  # that generate
    engine_gpus_per_node: int  # of each of these
    engines: int
    engine_gpus: int  # of each engine
    apart: bool  # whether the GPUs that generate do not train


def share_of(config: TrialConfig, training: int, engine_gpus: int) -> Share:
    """Return who has which GPUs, of which so many train."""
    machine, apart = config.machine, training < config.machine.gpus
    per_node = machine.gpus // machine.nodes
    generating = machine.gpus - training if apart else machine.gpus
    return Share(
        max(1, training // per_node),
        min(training, per_node),
        max(1, generating // per_node),
        min(generating, per_node),
        generating // engine_gpus,
        engine_gpus,
        apart,
    )


def memory_plan_of(
    config: TrialConfig,
    task: Task,
    means: Means,
    keys: Callable[[MemoryPlan], Collection[str]],
    settings: Mapping[str, Any],
    *,
    generators: int = 0,
    engine_gpus: int | None = None,
    required: bool = True,
) -> MemoryPlan:
    """Return the plan of a trial whose last `generators` GPUs do not train; 0: all generate and train in turn.

    InfeasibleError names what would fit where it does not, unless one of the plan's keys is the user's own.
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
    if not plan.short_bytes or not required or set(settings) & set(keys(plan)):
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
