"""From a recipe to prime-rl's keys, and what of a recipe it does otherwise.

Its advantage is the reward less the group's mean; its loss a mean over the batch's tokens of advantage × ratio, where
the ratio is against the probabilities of the generator and tokens whose probability has moved too far are left out.
"""

from collections.abc import Iterator
from typing import Any

from planner.recipes.schema import Objective, Recipe
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.ability import Difference, clip_bounds, shared_differences
from runner.trainers.driving import warmup_steps

_EPSILON = 1e-8  # AdamW's, which it does not let one set
_STALE = 1  # versions that a batch may be behind, at the least: it generates while it trains
_NEVER = 1.0  # no probability moves by more


def recipe_keys(config: TrialConfig) -> dict[str, Any]:
    """Return what of its configuration follows from the recipe."""
    objective, filters, optimizer = config.recipe.objective, config.recipe.filters, config.recipe.optimizer
    rate: dict[str, Any] = {"type": "constant"}
    if (warmup := warmup_steps(config)) > 1:  # `linear` without a decay rises from its least rate and then stays
        least = config.learning_rate / warmup
        rate = {"type": "linear", "warmup_steps": warmup - 1, "decay_steps": 0, "min_lr": least}
    low, high = clip_bounds(objective, _NEVER, _NEVER)
    return {
        "inference.enable_fp32_lm_head": config.recipe.precision.fp32_head,
        "orchestrator.algo.type": "grpo",
        "orchestrator.max_off_policy_steps": config.recipe.schedule.staleness_bound,
        "orchestrator.train.filter_zero_advantages": filters.zero_variance != "keep",
        "trainer.loss.type": "default",
        "trainer.loss.dppo_mask_low": low,
        "trainer.loss.dppo_mask_high": high,
        "trainer.loss.adv_tau": 1.0,
        "trainer.loss.kl_tau": 0.0,
        "trainer.optim.type": "adamw",
        "trainer.optim.lr": config.learning_rate,
        "trainer.optim.betas1": optimizer.beta1,
        "trainer.optim.betas2": optimizer.beta2,
        "trainer.optim.weight_decay": optimizer.weight_decay,
        "trainer.optim.max_norm": optimizer.clip_norm,
        **{f"trainer.scheduler.{name}": value for name, value in rate.items()},
    }


def gates(recipe: Recipe) -> dict[str, Any]:
    """Return what keeps groups without signal out of a batch, so that others fill it."""
    if recipe.filters.zero_variance != "refill":
        return {}
    return {"curriculum": {"gates": {"signal": {"type": "advantage_range", "reject_min": 0.0, "reject_max": 0.0}}}}


def differences(recipe: Recipe, _: Machine) -> Iterator[Difference]:
    """Yield what prime-rl would do otherwise."""
    schedule = recipe.schedule
    if not schedule.staleness_bound:
        yield Difference("schedule.staleness_bound", 0, "but it always generates while it trains", _STALE)
    if schedule.updates_per_batch > 1:
        why = "but it makes one update of each batch"
        yield Difference("schedule.updates_per_batch", schedule.updates_per_batch, why, 1)
    if recipe.advantage.scale != "none":
        yield Difference("advantage.scale", recipe.advantage.scale, "but it divides by nothing", "none")
    yield from _of_loss(recipe.objective)
    yield from shared_differences(
        recipe,
        truncated="but it trains on truncated responses",
        refilling=("but it goes on", "as many rounds as it takes to fill a batch"),
    )
    if recipe.optimizer.epsilon != _EPSILON:
        yield Difference("optimizer.epsilon", recipe.optimizer.epsilon, f"but its is {_EPSILON:g}", _EPSILON)


def _of_loss(objective: Objective) -> Iterator[Difference]:
    if objective.ratio == "sequence":
        yield Difference("objective.ratio", "sequence", "but its ratio is each token's", "token", near=False)
    if objective.against != "sampler":
        why = "but its ratio is against the generator's probabilities"
        yield Difference("objective.against", objective.against, why, "sampler")
    if objective.truncated_importance is not None:
        why = "which its ratio against the generator has in it"
        yield Difference("objective.truncated_importance", objective.truncated_importance, why, None)
    if objective.clip == "ppo":
        mask = "its mask of tokens whose probability has moved by more than clip_low or clip_high"
        yield Difference("objective.clip", "ppo", "but it has no clip ratio", mask, ours=False)
    elif objective.clip != "none":
        yield Difference("objective.clip", objective.clip, "which it has not", "ppo", near=False)
    if objective.aggregation != "token":
        yield Difference("objective.aggregation", objective.aggregation, "but it has 'token'", "token")
    for name, value in (("kl", objective.kl), ("entropy", objective.entropy)):
        if value:
            yield Difference(f"objective.{name}", value, "which its loss has no term for", 0.0)
