"""What the keys of each trainer's configuration mean: n, B, learning rate, model, GPUs, recipe."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from budgets.errors import InputError
from planner.adopting.configuration import Flat

Keys = Mapping[str, tuple[str, ...]]

# By the fields of Settings, and a few that others are worked out from. Our own names come first for all of them.
# `infer_…` are GPUs beside those that train, `generator_…` some of the run's; `update_…` is what one update takes.
_KEYS: dict[str, Keys] = {
    "verl": {
        "rollouts_per_prompt": ("actor_rollout_ref.rollout.n",),
        "prompts_per_batch": ("data.train_batch_size",),
        "learning_rate": ("actor_rollout_ref.actor.optim.lr",),
        "model": ("actor_rollout_ref.model.path",),
        "nodes": ("trainer.nnodes",),
        "gpus_per_node": ("trainer.n_gpus_per_node",),
        "infer_nodes": ("rollout.nnodes",),
        "infer_gpus_per_node": ("rollout.n_gpus_per_node",),  # of the one-step-off and the fully asynchronous
        "engine_gpus": ("actor_rollout_ref.rollout.tensor_model_parallel_size",),
        "seed": ("data.seed",),
        "response_tokens": ("data.max_response_length",),
        "validation_samples": ("actor_rollout_ref.rollout.val_kwargs.n",),
        "update_prompts": ("actor_rollout_ref.actor.ppo_mini_batch_size",),
    },
    "prime-rl": {
        "rollouts_per_prompt": ("orchestrator.group_size", "group_size", "orchestrator.rollouts_per_example"),
        "batch_rollouts": ("orchestrator.batch_size", "batch_size"),
        "learning_rate": ("trainer.optim.lr", "optim.lr"),
        "model": ("model.name", "trainer.model.name", "orchestrator.model.name"),
        "train_gpus": ("deployment.num_train_gpus", "trainer_gpus"),
        "infer_gpus": ("deployment.num_infer_gpus", "inference_gpus"),
        "engine_gpus": ("inference.parallel.tp", "parallel.tp"),
        "seed": ("seed", "orchestrator.seed"),
        "response_tokens": ("orchestrator.train.sampling.max_completion_tokens", "orchestrator.sampling.max_tokens"),
        "validation_samples": ("orchestrator.eval.group_size", "orchestrator.eval.rollouts_per_example"),
    },
    "trl": {
        "rollouts_per_prompt": ("num_generations",),
        "batch_rollouts": ("generation_batch_size",),
        "device_batch": ("per_device_train_batch_size",),
        "accumulation": ("steps_per_generation", "gradient_accumulation_steps"),
        "learning_rate": ("learning_rate",),
        "model": ("model_name_or_path", "model_id", "model"),
        "gpus": ("num_processes", "world_size", "n_gpu"),
        "seed": ("seed",),
        "response_tokens": ("max_completion_length",),
        "validation_samples": ("num_generations_eval",),
    },
    "openrlhf": {
        "rollouts_per_prompt": ("rollout.n_samples_per_prompt", "n_samples_per_prompt"),
        "prompts_per_batch": ("rollout.batch_size", "rollout_batch_size"),
        "update_rollouts": ("train.batch_size", "train_batch_size"),
        "learning_rate": ("actor.adam.lr", "actor_learning_rate"),
        "model": ("actor.model_name_or_path", "pretrain"),
        "nodes": ("actor.num_nodes", "actor_num_nodes"),
        "gpus_per_node": ("actor.num_gpus_per_node", "actor_num_gpus_per_node"),
        "engines": ("vllm.num_engines", "vllm_num_engines"),
        "engine_gpus": ("vllm.tensor_parallel_size", "vllm_tensor_parallel_size"),
        "colocated": ("train.colocate_all", "colocate_all_models"),
        "asynchronous": ("train.async_enable", "async_train"),
        "seed": ("train.seed", "seed"),
        "response_tokens": ("rollout.max_new_tokens", "generate_max_len"),
        "validation_samples": ("eval.n_samples_per_prompt", "eval_n_samples_per_prompt"),
    },
    "skyrl": {
        "rollouts_per_prompt": ("generator.n_samples_per_prompt",),
        "prompts_per_batch": ("trainer.train_batch_size",),
        "update_prompts": ("trainer.policy_mini_batch_size",),
        "learning_rate": ("trainer.policy.optimizer_config.lr",),
        "model": ("trainer.policy.model.path",),
        "nodes": ("trainer.placement.policy_num_nodes",),
        "gpus_per_node": ("trainer.placement.policy_num_gpus_per_node",),
        "engines": ("generator.inference_engine.num_engines", "generator.num_inference_engines"),
        "engine_gpus": (
            "generator.inference_engine.tensor_parallel_size",
            "generator.inference_engine_tensor_parallel_size",
        ),
        "colocated": ("trainer.placement.colocate_all",),
        "seed": ("trainer.seed",),
        "response_tokens": ("generator.sampling_params.max_generate_length",),
        "validation_samples": ("generator.eval_n_samples_per_prompt",),
    },
    "nemo-rl": {
        "rollouts_per_prompt": ("grpo.num_generations_per_prompt",),
        "prompts_per_batch": ("grpo.num_prompts_per_step",),
        "update_rollouts": ("policy.train_global_batch_size",),
        "learning_rate": ("policy.optimizer.kwargs.lr", "policy.megatron_cfg.optimizer.lr"),
        "model": ("policy.model_name",),
        "nodes": ("cluster.num_nodes",),
        "gpus_per_node": ("cluster.gpus_per_node",),
        "generator_nodes": ("policy.generation.colocated.resources.num_nodes",),
        "generator_gpus_per_node": ("policy.generation.colocated.resources.gpus_per_node",),
        "engine_gpus": ("policy.generation.vllm_cfg.tensor_parallel_size",),
        "colocated": ("policy.generation.colocated.enabled",),
        "asynchronous": ("grpo.async_grpo.enabled",),
        "seed": ("grpo.seed",),
        "response_tokens": ("policy.max_total_sequence_length",),
        "validation_samples": ("grpo.val_num_generations_per_prompt",),
    },
    "slime": {
        "rollouts_per_prompt": ("n_samples_per_prompt",),
        "prompts_per_batch": ("rollout_batch_size",),
        "update_rollouts": ("global_batch_size",),
        "learning_rate": ("lr",),
        "model": ("hf_checkpoint",),
        "nodes": ("actor_num_nodes",),
        "gpus_per_node": ("actor_num_gpus_per_node",),
        "infer_gpus": ("rollout_num_gpus",),
        "engine_gpus": ("rollout_num_gpus_per_engine",),
        "colocated": ("colocate",),
        "seed": ("seed",),
        "response_tokens": ("rollout_max_response_len",),
        "validation_samples": ("n_samples_per_eval_prompt",),
    },
    "areal": {
        "rollouts_per_prompt": ("gconfig.n_samples",),
        "prompts_per_batch": ("train_dataset.batch_size",),
        "learning_rate": ("actor.optimizer.lr",),
        "model": ("actor.path",),
        "nodes": ("cluster.n_nodes",),
        "gpus_per_node": ("cluster.n_gpus_per_node",),
        "seed": ("seed",),
        "response_tokens": ("gconfig.max_new_tokens",),
    },
}
# What a trainer takes where its configuration says nothing and is known otherwise.
_DEFAULTS: dict[str, Flat] = {
    "verl": {"nodes": 1, "gpus_per_node": 8, "learning_rate": 1e-6, "asynchronous": True},
    "prime-rl": {"asynchronous": True},
    "openrlhf": {"nodes": 1},
    "skyrl": {"nodes": 1, "colocated": True},
    "nemo-rl": {"nodes": 1, "colocated": True},
    "slime": {"nodes": 1},
}

# Which shipped recipe a key with a value tells of, the first that fits.
_RECIPES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "verl": (
        ("gspo", "actor_rollout_ref.actor.policy_loss.loss_mode", "gspo"),
        ("cispo", "actor_rollout_ref.actor.policy_loss.loss_mode", "cispo"),
        ("dapo", "algorithm.filter_groups.enable", "true"),
        ("dr-grpo", "algorithm.norm_adv_by_std_in_grpo", "false"),
        ("grpo", "algorithm.adv_estimator", "grpo"),
    ),
    "openrlhf": (
        ("gspo", "actor.policy_loss_type", "gspo"),
        ("dapo", "algo.dynamic_filtering_enable", "true"),
        ("dr-grpo", "algo.advantage.estimator", "dr_grpo"),
        ("dr-grpo", "advantage_estimator", "dr_grpo"),
        ("grpo", "algo.advantage.estimator", "group_norm"),
        ("grpo", "advantage_estimator", "group_norm"),
    ),
    "trl": (
        ("gspo", "importance_sampling_level", "sequence"),
        ("cispo", "loss_type", "cispo"),
        ("dapo", "loss_type", "dapo"),
        ("dr-grpo", "loss_type", "dr_grpo"),
        ("grpo", "loss_type", "grpo"),
    ),
    "skyrl": (
        ("gspo", "trainer.algorithm.policy_loss_type", "gspo"),
        ("cispo", "trainer.algorithm.policy_loss_type", "cispo"),
        ("dapo", "trainer.algorithm.dynamic_sampling.type", "filter"),
        ("dr-grpo", "trainer.algorithm.grpo_norm_by_std", "false"),
        ("grpo", "trainer.algorithm.advantage_estimator", "grpo"),
    ),
    "nemo-rl": (
        ("cispo", "loss_fn.use_cispo", "true"),
        ("gspo", "loss_fn.sequence_level_importance_ratios", "true"),
        ("dapo", "grpo.use_dynamic_sampling", "true"),
        ("dr-grpo", "grpo.normalize_rewards", "false"),
        ("grpo", "grpo.normalize_rewards", "true"),
    ),
    "slime": (
        ("gspo", "advantage_estimator", "gspo"),
        ("cispo", "advantage_estimator", "cispo"),
        ("dr-grpo", "disable_grpo_std_normalization", "true"),
        ("grpo", "advantage_estimator", "grpo"),
    ),
}


@dataclass(frozen=True)
class Settings:
    """What a run was configured to do, as far as it is known."""

    rollouts_per_prompt: int | None = None
    prompts_per_batch: int | None = None
    learning_rate: float | None = None
    model: str | None = None
    recipe: str | None = None
    gpus: int | None = None
    seed: int | None = None
    response_tokens: int | None = None  # the most of a response
    validation_samples: int | None = None
    notes: tuple[str, ...] = ()

    def with_given(self, given: Mapping[str, Any]) -> "Settings":
        """Return the same with what the user says instead; None is nothing said."""
        known = {each.name for each in fields(self)}
        return replace(self, **{name: value for name, value in given.items() if name in known and value is not None})

    def missing(self) -> list[str]:
        """Return what must be known and is not, by the names of its flags."""
        needed = ("rollouts_per_prompt", "prompts_per_batch", "learning_rate", "model", "gpus")
        return [f"--{name.replace('_', '-')}" for name in needed if getattr(self, name) is None]


def settings_of(trainer: str | None, found: Flat) -> Settings:
    """Return what a configuration says, by the keys of its trainer, or by our own names for them."""
    known = known_of(trainer, found)
    n = whole(known, "rollouts_per_prompt")
    prompts = _prompts(known, n)
    updates = updates_of(known, n, prompts)
    notes = (
        () if updates == 1 else (f"{updates} updates a batch ({update_prompts(known, n)} of {prompts} prompts each)",)
    )
    return Settings(
        rollouts_per_prompt=n,
        prompts_per_batch=prompts,
        learning_rate=_number(known, "learning_rate"),
        model=None if known.get("model") is None else str(known["model"]),
        recipe=str(known["recipe"]) if isinstance(known.get("recipe"), str) else _recipe(trainer, found),
        gpus=_gpus(known),
        seed=whole(known, "seed"),
        response_tokens=whole(known, "response_tokens"),
        validation_samples=whole(known, "validation_samples"),
        notes=notes,
    )


def known_of(trainer: str | None, found: Flat) -> Flat:
    """Return what a configuration says by our names; what its trainer takes where it says nothing."""
    keys = _KEYS.get(trainer or "", {})
    own = [each.name for each in fields(Settings) if each.name != "notes"]
    known: Flat = dict(_DEFAULTS.get(trainer or "", {})) if found else {}
    for name in dict.fromkeys([*own, *keys]):
        places = [place for place in (name, *keys.get(name, ())) if found.get(place) is not None]
        if places:
            known[name] = found[places[0]]
    return known


def _prompts(known: Flat, n: int | None) -> int | None:
    """Return B, where it is given as such or follows from the rollouts of a batch."""
    given = whole(known, "prompts_per_batch")
    if given is not None or n is None:
        return given
    rollouts = whole(known, "batch_rollouts")
    if rollouts is None and {"device_batch", "accumulation", "gpus"} <= known.keys():
        rollouts = math.prod(whole(known, name) or 1 for name in ("device_batch", "accumulation", "gpus"))
    if rollouts is None:
        return None
    if rollouts % n:
        raise InputError(
            f"{rollouts} rollouts a batch are no multiple of {n} rollouts per prompt: say what B is with "
            "--prompts-per-batch"
        )
    return rollouts // n


def update_prompts(known: Flat, n: int | None) -> int | None:
    """Return the prompts of one update."""
    of_update = whole(known, "update_prompts")
    if of_update is None and n and (rollouts := whole(known, "update_rollouts")):
        of_update = max(1, rollouts // n)
    return of_update


def updates_of(known: Flat, n: int | None, prompts: int | None) -> int:
    """Return how many updates are made of a batch; several are another recipe than one."""
    of_update = update_prompts(known, n)
    return max(1, math.ceil(prompts / of_update)) if prompts and of_update else 1


def _gpus(known: Flat) -> int | None:
    """Return the GPUs of a run: trainer and generator, once where they share."""
    given = whole(known, "gpus")
    if given is not None:
        return given
    if "train_gpus" in known:
        return (whole(known, "train_gpus") or 0) + (whole(known, "infer_gpus") or 0)
    per_node = whole(known, "gpus_per_node")
    if per_node is None:
        return None
    own = (whole(known, "nodes") or 1) * per_node
    own += (whole(known, "infer_nodes") or 0) * (whole(known, "infer_gpus_per_node") or 0)
    if known.get("colocated") or not ({"engines", "infer_gpus"} & known.keys()):
        return own
    engines = (whole(known, "engines") or 0) * (whole(known, "engine_gpus") or 1)
    return own + (whole(known, "infer_gpus") or engines)


def _recipe(trainer: str | None, found: Flat) -> str | None:
    """Return the shipped recipe that a configuration comes nearest to by its names; None where it says too little."""
    for recipe, key, value in _RECIPES.get(trainer or "", ()):
        if str(found.get(key, "")).casefold() == value:
            return recipe
    return None


def _number(known: Flat, name: str) -> float | None:
    value = known.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def whole(known: Flat, name: str) -> int | None:
    """Return a whole number of at least 0; None where none is given."""
    value = known.get(name)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
