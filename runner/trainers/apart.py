"""Which GPUs of a trial train and which generate: the same in turn, or each their own, maybe at the same time."""

from dataclasses import dataclass
from typing import Any

from budgets.errors import InputError
from planner.recipes.schema import Recipe
from runner.ports.trial import TrialConfig
from runner.trainers.spec import TrainerSpec

_HALF = 0.5  # of the GPUs train where no plan has priced a split


def trains_apart(spec: TrainerSpec, recipe: Recipe) -> bool:
    """Whether a trainer generates a recipe's batches on GPUs of their own while it trains."""
    by_staleness = spec.asynchronous == "by staleness"
    return spec.asynchronous == "always" or (by_staleness and recipe.schedule.staleness_bound > 0)


def training_gpus(spec: TrainerSpec, config: TrialConfig, options: Any) -> int:
    """Return how many GPUs train; the others generate. InputError for a split that there is not.

    Options name them as `train_gpus`, or as `vllm_gpus` those that generate. Where neither is given, as many train of
    an asynchronous trial as its price has, or the nearest that can.
    """
    machine, per_node = config.machine, config.machine.gpus // config.machine.nodes
    asynchronous = trains_apart(spec, config.recipe)
    wanted, apart = getattr(options, "train_gpus", None), getattr(options, "vllm_gpus", 0)
    training = machine.gpus - apart if apart else wanted
    if training is None:
        training = _as_priced(spec, config, options) if asynchronous else machine.gpus
    name, option = config.driven_by.name, "vllm_gpus" if hasattr(options, "vllm_gpus") else "train_gpus"
    if wanted is not None and not asynchronous:
        raise InputError(
            f"[trainer.options] train_gpus = {wanted} with --trainer {name}: without a staleness bound all GPUs train "
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


def _as_priced(spec: TrainerSpec, config: TrialConfig, options: Any) -> int:
    """Return how many GPUs train by the price, or the nearest that have whole nodes, engines and equal shares."""
    machine, engine_gpus = config.machine, getattr(options, "tensor_parallel", None) or 1
    wanted = machine.gpus * (_HALF if machine.training_share is None else machine.training_share)
    least = machine.gpus // machine.nodes if machine.nodes > 1 else 1
    possible = [
        gpus
        for gpus in range(least, machine.gpus, least)
        if not (machine.gpus - gpus) % engine_gpus and not (spec.equal_shares and config.rollouts_per_step % gpus)
    ]
    # Of two that are as near the larger one trains: what the price has fits its GPUs, and fewer may not.
    return min(possible, key=lambda gpus: (abs(gpus - wanted), -gpus), default=machine.gpus // 2)


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
