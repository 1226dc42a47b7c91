"""From a recipe to OpenRLHF's flags, and what of a recipe OpenRLHF 0.11.2 cannot do."""

from collections.abc import Iterator
from typing import Any

from planner.recipes.schema import Objective, Recipe
from runner.ports.trial import Machine
from runner.trainers.ability import UNCLIPPED, Difference, clip_bounds, loss_differences, shared_differences

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
        "actor.eps_clip_low_high": list(clip_bounds(objective, UNCLIPPED)),
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


def differences(recipe: Recipe, _: Machine) -> Iterator[Difference]:
    """Yield what OpenRLHF would do otherwise."""
    yield from _of_objective(recipe.objective)
    if recipe.advantage.scale == "batch":
        why = "where it centres and divides over tokens, not over responses"
        yield Difference("advantage.scale", "batch", why, "the deviation over tokens", ours=False)
    yield from shared_differences(
        recipe,
        stale="but it generates, then trains",
        truncated="which it has not",
        dropping="but such groups stay in the batch, and in its means",
        refilling=("but it refills until the batch is whole", "no bound"),
        head=False,
        sampler=False,
        epsilon=_EPSILON,
    )


def _of_objective(objective: Objective) -> Iterator[Difference]:
    fixed = "sample" if objective.ratio == "sequence" else None
    yield from loss_differences(objective, ("ppo", "none"), _AGGREGATIONS, fixed)
    if objective.truncated_importance is not None and objective.ratio == "sequence":
        why = "which it has not beside a ratio of whole responses"
        yield Difference("objective.truncated_importance", objective.truncated_importance, why, None)
    elif objective.truncated_importance is not None and objective.truncated_importance_level != "token":
        why = "where it leaves out responses instead of weighing them"
        yield Difference("objective.truncated_importance_level", "sequence", why, "token")
    aggregation = fixed or objective.aggregation
    if objective.kl and aggregation == "sample":
        why = f"which it averages over the batch's tokens, not as '{aggregation}'"
        yield Difference("objective.kl", objective.kl, why, "a mean over tokens", ours=False)
