"""Which GPUs of a run generated and which trained, whether they took turns, and how often a batch was used."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.adopting.configuration import Flat

# By trainer: the GPUs of generation, as such or as nodes × GPUs; those of an engine; whether all share; whether the
# next batch is made while one trains; the prompts or rollouts of an update. Places in the order of trust.
_KEYS: dict[str, Mapping[str, tuple[str, ...]]] = {
    "verl": {
        "generator_nodes": ("rollout.nnodes",),
        "generator_gpus_per_node": ("rollout.n_gpus_per_node",),  # of the one-step-off and the fully asynchronous
        "engine_gpus": ("actor_rollout_ref.rollout.tensor_model_parallel_size",),
        "update_prompts": ("actor_rollout_ref.actor.ppo_mini_batch_size",),
    },
    "prime-rl": {
        "generator_gpus": ("deployment.num_infer_gpus", "inference_gpus"),
        "engine_gpus": ("inference.parallel.tp", "parallel.tp"),
    },
    "openrlhf": {
        "engines": ("vllm.num_engines", "vllm_num_engines"),
        "engine_gpus": ("vllm.tensor_parallel_size", "vllm_tensor_parallel_size"),
        "colocated": ("train.colocate_all", "colocate_all_models"),
        "asynchronous": ("train.async_enable", "async_train"),
        "update_rollouts": ("train.batch_size", "train_batch_size"),
    },
    "skyrl": {
        "engines": ("generator.inference_engine.num_engines", "generator.num_inference_engines"),
        "engine_gpus": (
            "generator.inference_engine.tensor_parallel_size",
            "generator.inference_engine_tensor_parallel_size",
        ),
        "colocated": ("trainer.placement.colocate_all",),
        "update_prompts": ("trainer.policy_mini_batch_size",),
    },
    "nemo-rl": {
        "generator_nodes": ("policy.generation.colocated.resources.num_nodes",),
        "generator_gpus_per_node": ("policy.generation.colocated.resources.gpus_per_node",),
        "engine_gpus": ("policy.generation.vllm_cfg.tensor_parallel_size",),
        "colocated": ("policy.generation.colocated.enabled",),
        "asynchronous": ("grpo.async_grpo.enabled",),
        "update_rollouts": ("policy.train_global_batch_size",),
    },
    "slime": {
        "generator_gpus": ("rollout_num_gpus",),
        "engine_gpus": ("rollout_num_gpus_per_engine",),
        "colocated": ("colocate",),
        "update_rollouts": ("global_batch_size",),
    },
}
_SHARES = {"skyrl": True, "nemo-rl": True}  # all GPUs, where its settings do not say
_OVERLAPS = {"prime-rl"}  # generation and training always do
_OVERLAPS_WHERE_SPLIT = {"verl"}


@dataclass(frozen=True, slots=True)
class Split:
    """How a run's GPUs were used, as far as its settings say; all took turns where they say nothing."""

    generator_gpus: int | None = None  # None: all of them
    engine_gpus: int | None = None  # of one inference engine
    asynchronous: bool = False
    updates: int = 1  # of a batch

    def of(self, gpus: int) -> tuple[int, int, bool]:
        """Return how many of a run's GPUs generated, how many trained, and whether they are the same."""
        if self.generator_gpus is None or not 0 < self.generator_gpus < gpus:
            return gpus, gpus, True
        return self.generator_gpus, gpus - self.generator_gpus, False


def split_of(trainer: str | None, found: Flat, n: int | None, prompts: int | None) -> Split:
    """Return what a configuration says of it, by the keys of its trainer."""
    keys = _KEYS.get(trainer or "", {})
    known = {name: found[place] for name, places in keys.items() for place in reversed(places) if place in found}
    engine, generators = _whole(known, "engine_gpus"), _generators(known)
    if _true(known.get("colocated", _SHARES.get(trainer or "", False))):
        generators = None
    asynchronous = trainer in _OVERLAPS or _true(known.get("asynchronous", False))
    asynchronous = asynchronous or (trainer in _OVERLAPS_WHERE_SPLIT and generators is not None)
    return Split(generators, engine, asynchronous and generators is not None, _updates(known, n, prompts))


def _generators(known: Mapping[str, Any]) -> int | None:
    given = _whole(known, "generator_gpus")
    if given is not None:
        return given
    per_node, nodes = _whole(known, "generator_gpus_per_node"), known.get("generator_nodes")
    if per_node is not None:  # with 0 nodes verl means that all take turns
        return None if nodes == 0 else per_node * (_whole(known, "generator_nodes") or 1)
    engines = _whole(known, "engines")
    return None if engines is None else engines * (_whole(known, "engine_gpus") or 1)


def _updates(known: Mapping[str, Any], n: int | None, prompts: int | None) -> int:
    of_update, rollouts = _whole(known, "update_prompts"), _whole(known, "update_rollouts")
    if of_update is None and rollouts is not None and n:
        of_update = max(1, rollouts // n)
    return 1 if not of_update or not prompts else max(1, -(-prompts // of_update))


def _true(value: object) -> bool:
    return str(value).casefold() == "true"


def _whole(known: Mapping[str, Any], name: str) -> int | None:
    value = known.get(name)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 1 else None
