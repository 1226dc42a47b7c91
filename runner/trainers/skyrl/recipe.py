"""From a recipe to SkyRL's keys, and what of a recipe SkyRL 0.3.0 cannot do."""

from collections.abc import Iterator
from typing import Any

from planner.recipes.schema import Objective, Recipe
from runner.ports.trial import Machine
from runner.trainers.ability import UNCLIPPED, Difference, clip_bounds, loss_differences, shared_differences

_EPSILON = 1e-6  # which it adds to the deviation of a group
_ADAM_EPSILON = 1e-8
_CLIPS = ("ppo", "none", "cispo", "soft")
_REDUCTIONS = {
    "token": "token_mean",
    "sample": "sequence_mean",
    "prompt": "prompt_mean",
    "constant": "seq_mean_token_sum_norm",
}
_SAMPLES = 1_000_000  # batches until a batch is whole; at the end of a limit of its own it would give up


def recipe_keys(recipe: Recipe, longest: int) -> dict[str, Any]:
    """Return the keys that follow from a recipe that SkyRL can do, with responses of at most `longest` tokens."""
    objective, optimizer, filters = recipe.objective, recipe.optimizer, recipe.filters
    algorithm: dict[str, Any] = {
        "advantage_estimator": "grpo",
        "grpo_norm_by_std": recipe.advantage.scale == "group",
        "advantage_batch_normalize": recipe.advantage.scale == "batch",
        "loss_reduction": _REDUCTIONS[objective.aggregation],
        "max_seq_len": longest if objective.aggregation == "constant" else None,
        "use_kl_in_reward": False,
        "use_kl_loss": objective.kl > 0,  # its default is a term of 0.001
        "kl_loss_coef": objective.kl,
        "kl_estimator_type": "k3",
        "use_entropy_loss": objective.entropy > 0,
        "entropy_loss_coef": objective.entropy,
        "zero_variance_filter": filters.zero_variance == "drop",
        "dynamic_sampling.type": "filter" if filters.zero_variance == "refill" else None,
        "dynamic_sampling.max_sample_batches": _SAMPLES,
        "off_policy_correction.tis_ratio_type": None,
        **_loss(objective),
    }
    if objective.truncated_importance is not None:
        level = objective.truncated_importance_level
        algorithm["off_policy_correction.tis_ratio_type"] = level
        algorithm[f"off_policy_correction.{level}_tis_ratio_clip_high"] = objective.truncated_importance
    return {
        **{f"trainer.algorithm.{name}": value for name, value in algorithm.items()},
        "trainer.policy.optimizer_config.adam_betas": [optimizer.beta1, optimizer.beta2],
        "trainer.policy.optimizer_config.weight_decay": optimizer.weight_decay,
        "trainer.policy.optimizer_config.max_grad_norm": optimizer.clip_norm or UNCLIPPED,
        "generator.apply_overlong_filtering": recipe.rewards.mask_truncated,
    }


def _loss(objective: Objective) -> dict[str, Any]:
    if objective.clip == "cispo":  # it cuts the ratio to 1 − low … 1 + high, which without a lower clip begins at 0
        low, high = clip_bounds(objective)
        return {"policy_loss_type": "cispo", "cispo.cispo_eps_clip_low": low, "cispo.cispo_eps_clip_high": high}
    if objective.clip == "soft":
        gate = {"sapo.tau_pos": objective.soft_positive, "sapo.tau_neg": objective.soft_negative}
        return {"policy_loss_type": "sapo", **gate}
    low, high = clip_bounds(objective, UNCLIPPED)
    kind = "gspo" if objective.ratio == "sequence" else "regular"
    return {"policy_loss_type": kind, "eps_clip_low": low, "eps_clip_high": high}


def differences(recipe: Recipe, _: Machine) -> Iterator[Difference]:
    """Yield what SkyRL would do otherwise."""
    yield from loss_differences(recipe.objective, _CLIPS, _REDUCTIONS)
    yield from _of_terms(recipe.objective)
    filters, rewards = recipe.filters, recipe.rewards
    yield from shared_differences(
        recipe,
        stale="but this entry point of it generates, then trains",
        refilling=("but it refills until the batch is whole", "no bound"),
        head=False,
        sampler=False,
        epsilon=_EPSILON,
        rising="late",
    )
    if recipe.advantage.scale == "batch":
        why = "where it centres and divides over tokens, padding included"
        yield Difference("advantage.scale", "batch", why, "the deviation over tokens", ours=False)
    if rewards.overlong_share:
        why = "but a reward of it does not see how many tokens there were"
        yield Difference("rewards.overlong_share", rewards.overlong_share, why, 0.0)
    if filters.zero_variance == "drop" and recipe.objective.aggregation != "token":
        why = "but such groups count among those that it averages over"
        yield Difference("filters.zero_variance", "drop", why, "left out of the loss alone", ours=False)
    if recipe.optimizer.epsilon != _ADAM_EPSILON:
        yield Difference("optimizer.epsilon", recipe.optimizer.epsilon, "which it cannot set", _ADAM_EPSILON)


def _of_terms(objective: Objective) -> Iterator[Difference]:
    if objective.kl and objective.kl_weighted:
        yield Difference("objective.kl_weighted", True, "which it has not", False)
    if objective.kl and objective.aggregation != "sample":
        why = f"which it averages within each response first, not as '{objective.aggregation}'"
        yield Difference("objective.kl", objective.kl, why, "a mean over responses", ours=False)
    if objective.entropy:
        why = "which it averages within each pass first"
        yield Difference("objective.entropy", objective.entropy, why, "a mean over passes", ours=False)
