"""Which GPUs of a trial train and which generate: the same in turn, or each their own, maybe at the same time."""

from dataclasses import dataclass
from typing import Any

from budgets.errors import InputError
from planner.recipes.schema import Recipe
from runner.ports.trial import TrialConfig
from runner.trainers.spec import TrainerSpec


def trains_apart(spec: TrainerSpec, recipe: Recipe) -> bool:
    """Whether a trainer generates a recipe's batches on GPUs of their own while it trains."""
    by_staleness = spec.asynchronous == "by staleness"
    return spec.asynchronous == "always" or (by_staleness and recipe.schedule.staleness_bound > 0)


def training_gpus(config: TrialConfig, options: Any, asynchronous: bool) -> int:
    """Return how many GPUs train; the others generate. InputError for a split that there is not.

    Options name them as `train_gpus`, or as `vllm_gpus` those that generate. Where neither is given, half of an
    asynchronous trial trains, in whole nodes.
    """
    machine, per_node = config.machine, config.machine.gpus // config.machine.nodes
    wanted, apart = getattr(options, "train_gpus", None), getattr(options, "vllm_gpus", 0)
    half = machine.nodes // 2 * per_node if machine.nodes > 1 else machine.gpus // 2
    training = machine.gpus - apart if apart else wanted or (half if asynchronous else machine.gpus)
    assert config.trainer is not None
    name, option = config.trainer.name, "vllm_gpus" if hasattr(options, "vllm_gpus") else "train_gpus"
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
