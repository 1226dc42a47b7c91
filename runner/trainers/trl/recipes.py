"""From a recipe to the arguments of TRL's GRPOConfig, and what of a recipe TRL 1.16 cannot do.

tests/trl holds the losses against each other, one by one.
"""

from collections.abc import Iterator
from typing import Any

from planner.recipes.schema import Objective, Recipe
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.ability import UNCLIPPED, Difference, clip_bounds, loss_differences, shared_differences

_EPSILON = 1e-4  # which TRL adds to the deviation of a group
_LOSSES = {"sample": "grpo", "token": "dapo", "constant": "dr_grpo", "sum": "luspo"}  # of a ratio that is clipped
_AGGREGATIONS = {"cispo": "token", "soft": "sample", "gamma": "token"}
_CLIPS = ("ppo", "none", "cispo", "soft", "gamma")


def recipe_settings(config: TrialConfig) -> dict[str, Any]:
    """Return what of GRPOConfig follows from the recipe."""
    recipe = config.recipe
    objective, optimizer = recipe.objective, recipe.optimizer
    return {
        **_clip(objective),
        "scale_rewards": recipe.advantage.scale,
        "importance_sampling_level": objective.ratio,
        "beta": objective.kl,
        "use_bias_correction_kl": objective.kl_weighted,
        "entropy_coef": objective.entropy,
        "mask_truncated_completions": recipe.rewards.mask_truncated,
        "vllm_importance_sampling_correction": objective.truncated_importance is not None,
        "vllm_importance_sampling_mode": f"{objective.truncated_importance_level}_truncate",
        "vllm_importance_sampling_clip_max": objective.truncated_importance or 1.0,
        "num_iterations": 1,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": "constant",  # the warm-up is train.py's, as of the builtin trainer
        "optim": "adamw_torch_fused",
        "adam_beta1": optimizer.beta1,
        "adam_beta2": optimizer.beta2,
        "adam_epsilon": optimizer.epsilon,
        "weight_decay": optimizer.weight_decay,
        "max_grad_norm": optimizer.clip_norm or 0.0,
    }


def _clip(objective: Objective) -> dict[str, Any]:
    low, high = clip_bounds(objective, UNCLIPPED)
    if objective.clip == "cispo":  # TRL caps the ratio itself, at an absolute bound
        return {"loss_type": "cispo", "epsilon": 0.0, "epsilon_high": 1 + high}
    if objective.clip == "soft":
        gate = {"sapo_temperature_pos": objective.soft_positive, "sapo_temperature_neg": objective.soft_negative}
        return {"loss_type": "sapo", **gate}
    if objective.clip == "gamma":
        return {"loss_type": "vespo"}
    return {"loss_type": _LOSSES[objective.aggregation], "epsilon": low, "epsilon_high": high}


def differences(recipe: Recipe, machine: Machine) -> Iterator[Difference]:
    """Yield what TRL would do otherwise."""
    objective, filters = recipe.objective, recipe.filters
    yield from loss_differences(objective, _CLIPS, _LOSSES, _AGGREGATIONS.get(objective.clip), by_response=_CLIPS)
    yield from shared_differences(
        recipe, stale="but its GRPOTrainer generates, then trains", sampler=machine.engine != "vllm", epsilon=_EPSILON
    )
    if machine.engine != "vllm" and recipe.schedule.staleness_bound and objective.against == "sampler":
        yield Difference("objective.against", "sampler", "which without staleness is the trainer itself", "trainer")
    if objective.clip == "cispo" and objective.clip_low is not None:
        yield Difference("objective.clip_low", objective.clip_low, "but its cispo has no lower clip", None)
    if recipe.advantage.scale == "batch":
        why = "where it divides by the deviation of rewards, not of advantages"
        yield Difference("advantage.scale", "batch", why, "group")
    if filters.zero_variance != "keep":
        near = filters.zero_variance == "drop"  # groups without a gradient; refilling would generate others
        yield Difference("filters.zero_variance", filters.zero_variance, "but it keeps every group", "keep", near=near)
