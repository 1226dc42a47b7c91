"""From a recipe to slime's flags, and what of a recipe it does otherwise. Advantages are ours: see rlplan_slime.py."""

from collections.abc import Iterator
from typing import Any

from planner.recipes.schema import Recipe
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.ability import Difference, clip_bounds, loss_differences, shared_differences
from runner.trainers.driving import warmup_steps

_ENDLESS = 1_000_000  # updates: the rate must not depend on where a segment ends, nor its warm-up be longer
_NONZERO = "slime.rollout.filter_hub.dynamic_sampling_filters.check_reward_nonzero_std"


def recipe_flags(config: TrialConfig) -> dict[str, Any]:
    """Return what of its command line follows from the recipe."""
    objective, optimizer = config.recipe.objective, config.recipe.optimizer
    low, high = clip_bounds(objective)
    estimator = "cispo" if objective.clip == "cispo" else "gspo" if objective.ratio == "sequence" else "grpo"
    truncated, warmup = objective.truncated_importance, max(1, warmup_steps(config))
    return {
        "--advantage-estimator": estimator,
        "--eps-clip": low,
        "--eps-clip-high": high,
        "--use-kl-loss": objective.kl > 0,
        "--kl-loss-coef": objective.kl,
        "--kl-loss-type": "low_var_kl",
        "--use-unbiased-kl": objective.kl > 0 and objective.kl_weighted,
        "--entropy-coef": objective.entropy,
        "--use-rollout-logprobs": objective.against == "sampler",
        "--use-tis": truncated is not None and objective.against == "trainer",
        "--tis-clip": truncated or 2.0,
        "--tis-clip-low": 0.0,
        "--calculate-per-token-loss": objective.aggregation == "token",
        "--dynamic-sampling-filter-path": _NONZERO if config.recipe.filters.zero_variance == "refill" else None,
        "--optimizer": "adam",
        "--lr": config.learning_rate,
        "--lr-decay-style": "constant",
        "--lr-decay-iters": _ENDLESS,
        "--lr-warmup-iters": warmup - 1,  # which begin at a rate of 0, unless it is told of another
        "--lr-warmup-init": config.learning_rate / warmup if warmup > 1 else 0.0,
        "--adam-beta1": optimizer.beta1,
        "--adam-beta2": optimizer.beta2,
        "--adam-eps": optimizer.epsilon,
        "--weight-decay": optimizer.weight_decay,
        "--clip-grad": optimizer.clip_norm or 0.0,
    }


def differences(recipe: Recipe, _: Machine) -> Iterator[Difference]:
    """Yield what slime would do otherwise; Megatron trains in bf16."""
    objective = recipe.objective
    yield from loss_differences(objective, ("ppo", "none", "cispo"), ("sample", "token"), entropy_alike=True)
    yield from shared_differences(
        recipe,
        stale="but its train.py is synchronous",
        dropping="but it keeps groups without a gradient",
        refilling=("but it samples others for as long as it takes", "no bound"),
        head=False,
    )
    if objective.truncated_importance is not None and objective.truncated_importance_level != "token":
        yield Difference("objective.truncated_importance_level", "sequence", "but its is each token's", "token")
