"""From a recipe to OpenRLHF's flags, and what of a recipe OpenRLHF 0.11.2 cannot do."""

from collections.abc import Iterator
from typing import Any

from planner.recipes.schema import Objective, Recipe
from runner.trainers.ability import Difference

_UNCLIPPED = 1e9
_EPSILON = 1e-9  # which it adds to the deviation of a group
_AGGREGATIONS = {"token": "token-mean", "sample": "seq-mean-token-mean"}
_ESTIMATORS = {"group": "group_norm", "none": "dr_grpo", "batch": "reinforce_baseline"}


def recipe_flags(recipe: Recipe, longest: int) -> dict[str, Any]:
    """Return the flags that follow from a recipe that OpenRLHF can do, with responses of at most `longest` tokens."""
    objective, optimizer = recipe.objective, recipe.optimizer
    flags: dict[str, Any] = {
        "algo.advantage.estimator": _ESTIMATORS[recipe.advantage.scale],
        "actor.policy_loss_type": "gspo" if objective.ratio == "sequence" else "ppo",
        "actor.loss_agg_mode": _AGGREGATIONS[objective.aggregation],
        "actor.eps_clip_low_high": _clip(objective),
        "algo.kl.init_coef": objective.kl,  # its default is 0.01, in the reward
        "actor.adam.betas": [optimizer.beta1, optimizer.beta2],
        "actor.adam.eps": optimizer.epsilon,
        "actor.adam.weight_decay": optimizer.weight_decay,
        "actor.max_norm": optimizer.clip_norm or 0.0,
    }
    if objective.kl:
        flags |= {"algo.kl.use_loss": True, "algo.kl.estimator": "k3"}
        flags |= {"algo.kl.unbiased_gradient": True} if objective.kl_weighted else {}
    if objective.entropy:
        flags["actor.entropy_coef"] = objective.entropy
    if objective.truncated_importance is not None:
        flags |= {
            "algo.advantage.is_correction_level": "token",
            "algo.advantage.is_correction_mode": "clip",
            "algo.advantage.is_correction_gating": "ratio",
            "algo.advantage.is_correction_threshold": [0.0, objective.truncated_importance],
        }
    if recipe.rewards.overlong_share:
        flags["reward.overlong_buffer_len"] = recipe.rewards.overlong_share * longest
        flags["reward.overlong_penalty_factor"] = 1.0
    if recipe.filters.zero_variance == "refill":
        flags |= {"algo.dynamic_filtering_enable": True, "algo.dynamic_filtering_range": [0.0, 1.0]}
    return flags


def _clip(objective: Objective) -> list[float]:
    bounds = (objective.clip_low, objective.clip_high)
    return [_UNCLIPPED if bound is None or objective.clip == "none" else bound for bound in bounds]


def differences(recipe: Recipe) -> Iterator[Difference]:
    """Yield what OpenRLHF would do otherwise."""
    yield from _of_objective(recipe)
    yield from _of_advantage(recipe)
    filters, schedule, rewards = recipe.filters, recipe.schedule, recipe.rewards
    if schedule.staleness_bound:
        yield Difference("schedule.staleness_bound", schedule.staleness_bound, "but it generates, then trains", 0)
    if rewards.mask_truncated:
        yield Difference("rewards.mask_truncated", True, "which it has not", False)
    if filters.zero_variance == "drop":
        why = "but such groups stay in the batch, and in its means"
        yield Difference("filters.zero_variance", "drop", why, "keep")
    if filters.zero_variance == "refill":
        why = "but it refills until the batch is whole"
        yield Difference("filters.most_refills", filters.most_refills, why, "no bound", ours=False)
    if filters.retire_at is not None:
        yield Difference("filters.retire_at", filters.retire_at, "but it asks every prompt again", None)
    if recipe.precision.fp32_head:
        yield Difference("precision.fp32_head", True, "but its output head is in bf16", False)


def _of_objective(recipe: Recipe) -> Iterator[Difference]:
    objective = recipe.objective
    if objective.clip not in ("ppo", "none"):
        yield Difference("objective.clip", objective.clip, "which it has not", "ppo", near=False)
    if objective.against == "sampler":
        why = "but its ratio is against the trainer's own probabilities"
        yield Difference("objective.against", "sampler", why, "trainer")
    aggregation = objective.aggregation
    if objective.ratio == "sequence" and aggregation != "sample":
        yield Difference("objective.aggregation", aggregation, "but its gspo has 'sample'", "sample")
        aggregation = "sample"
    elif aggregation not in _AGGREGATIONS:
        yield Difference("objective.aggregation", aggregation, "which it has not", "token")
        aggregation = "token"
    if objective.truncated_importance is not None and objective.ratio == "sequence":
        why = "which it has not beside a ratio of whole responses"
        yield Difference("objective.truncated_importance", objective.truncated_importance, why, None)
    elif objective.truncated_importance is not None and objective.truncated_importance_level != "token":
        why = "where it leaves out responses instead of weighing them"
        yield Difference("objective.truncated_importance_level", "sequence", why, "token")
    if objective.kl and aggregation != "token":
        why = f"which it averages over the batch's tokens, not as '{aggregation}'"
        yield Difference("objective.kl", objective.kl, why, "a mean over tokens", ours=False)


def _of_advantage(recipe: Recipe) -> Iterator[Difference]:
    advantage = recipe.advantage
    if advantage.scale == "batch":
        why = "where it centres and divides over tokens, not over responses"
        yield Difference("advantage.scale", "batch", why, "the deviation over tokens", ours=False)
    elif advantage.scale == "group" and advantage.epsilon != _EPSILON:
        yield Difference("advantage.epsilon", advantage.epsilon, f"but its is {_EPSILON:g}", _EPSILON)
