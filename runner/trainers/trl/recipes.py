"""From a recipe to the arguments of TRL's GRPOConfig."""

from typing import Any

from planner.recipes.schema import Objective
from runner.ports.trial import TrialConfig
from runner.trainers.ability import UNCLIPPED, clip_bounds

_LOSSES = {"sample": "grpo", "token": "dapo", "constant": "dr_grpo", "sum": "luspo"}  # of a ratio that is clipped


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
