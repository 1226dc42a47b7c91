"""From a recipe to the keys of verl 0.9.1; tests/trainers_verl looks at both."""

from typing import Any

from planner.recipes.schema import Objective, Recipe
from runner.trainers.ability import UNCLIPPED, clip_bounds

OWN_ESTIMATOR = "rlplan"  # registered by advantages.py: verl's own adds 1e-6 to a deviation, and knows no scale `batch`
_AGGREGATIONS = {
    "sample": "seq-mean-token-mean",
    "token": "token-mean",
    "constant": "seq-mean-token-sum-norm",
    "sum": "seq-mean-token-sum",
}
_LOSSES = {"ppo": "vanilla", "none": "vanilla", "cispo": "cispo", "soft": "sapo"}

Keys = dict[str, Any]
ACTOR = "actor_rollout_ref.actor"


def recipe_keys(recipe: Recipe, longest: int) -> Keys:
    """Return the keys that follow from a recipe as verl does it; `longest` is that of a response, in tokens."""
    objective, rewards = recipe.objective, recipe.rewards
    low, high = clip_bounds(objective)
    keys: Keys = {
        "algorithm.adv_estimator": OWN_ESTIMATOR,  # its default is gae, with a critic
        "algorithm.use_kl_in_reward": False,
        "critic.enable": False,
        f"{ACTOR}.ppo_epochs": 1,
        f"{ACTOR}.policy_loss.loss_mode": "gspo" if objective.ratio == "sequence" else _LOSSES[objective.clip],
        f"{ACTOR}.loss_agg_mode": _AGGREGATIONS[objective.aggregation],
        f"{ACTOR}.loss_scale_factor": longest if objective.aggregation == "constant" else None,
        f"{ACTOR}.clip_ratio_low": low,
        f"{ACTOR}.clip_ratio_high": high,
        f"{ACTOR}.clip_ratio_c": UNCLIPPED,  # its default is a second bound, at a ratio of 3
        f"{ACTOR}.tau_pos": objective.soft_positive,
        f"{ACTOR}.tau_neg": objective.soft_negative,
        f"{ACTOR}.use_kl_loss": objective.kl > 0,
        f"{ACTOR}.kl_loss_coef": objective.kl,
        f"{ACTOR}.kl_loss_type": "low_var_kl",
        f"{ACTOR}.entropy_coeff": objective.entropy,
        f"{ACTOR}.calculate_entropy": True,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
        "algorithm.rollout_correction.bypass_mode": objective.against == "sampler",
        "algorithm.rollout_correction.rollout_is": _importance(objective),
        "algorithm.rollout_correction.rollout_is_threshold": objective.truncated_importance or 2.0,
        "algorithm.filter_groups.enable": recipe.filters.zero_variance == "refill",
        "algorithm.filter_groups.metric": "acc",
        "reward.reward_manager.name": "dapo",
    }
    overlong = round(rewards.overlong_share * longest)
    if overlong:
        cut = "+reward.reward_kwargs"
        keys |= {f"{cut}.max_resp_len": longest, f"{cut}.overlong_buffer_cfg.enable": True}
        keys |= {f"{cut}.overlong_buffer_cfg.len": overlong, f"{cut}.overlong_buffer_cfg.penalty_factor": 1.0}
        keys |= {f"{cut}.overlong_buffer_cfg.log": False}
    return keys


def optimizer_keys(recipe: Recipe, learning_rate: float, warmup: int) -> Keys:
    """Return the keys of AdamW and of the rate, which rises in `warmup` batches, the first of which has a rate already.

    verl's schedule `constant` begins with a rate of 0; its cosine with a least share of 1 is as constant, and need not.
    """
    optimizer, optim = recipe.optimizer, f"{ACTOR}.optim"
    return {
        f"{optim}.optimizer": "AdamW",
        f"{optim}.lr": learning_rate,
        f"{optim}.lr_scheduler_type": "cosine",
        f"{optim}.min_lr_ratio": 1.0,
        f"{optim}.zero_indexed_step": False,
        f"{optim}.lr_warmup_steps": warmup,
        f"{optim}.lr_warmup_steps_ratio": 0.0,
        f"{optim}.betas": [optimizer.beta1, optimizer.beta2],
        f"{optim}.weight_decay": optimizer.weight_decay,
        f"{optim}.clip_grad": optimizer.clip_norm or UNCLIPPED,
        f"{optim}.override_optimizer_config": {"eps": optimizer.epsilon},
    }


def _importance(objective: Objective) -> str | None:
    """Return the level of truncated importance; a ratio against the sampler contains it."""
    if objective.truncated_importance is None or objective.against == "sampler":
        return None
    return objective.truncated_importance_level
