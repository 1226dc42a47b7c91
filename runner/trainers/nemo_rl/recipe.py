"""From a recipe to NeMo-RL's keys, and what of a recipe it does otherwise. Advantages are ours: see start.py."""

from collections.abc import Iterator
from typing import Any

from planner.recipes.schema import Objective, Recipe
from runner.ports.trial import Machine, TrialConfig
from runner.trainers.ability import UNCLIPPED, Difference, clip_bounds, loss_differences, shared_differences
from runner.trainers.driving import warmup_batches


def recipe_keys(config: TrialConfig, longest: int) -> dict[str, Any]:
    """Return what of its configuration follows from the recipe; `longest` is a response's length in tokens."""
    recipe = config.recipe
    objective, rewards, filters = recipe.objective, recipe.rewards, recipe.filters
    overlong = round(rewards.overlong_share * longest)
    return {
        **_loss(objective),
        "grpo.normalize_rewards": recipe.advantage.scale == "group",
        "grpo.use_leave_one_out_baseline": False,  # its default is true
        "grpo.overlong_filtering": rewards.mask_truncated,
        "grpo.reward_shaping.enabled": bool(overlong),
        "grpo.reward_shaping.overlong_buffer_length": overlong,
        "grpo.reward_shaping.overlong_buffer_penalty": 1,
        "grpo.reward_shaping.max_response_length": longest,
        "grpo.reward_scaling.enabled": False,
        "grpo.use_dynamic_sampling": filters.zero_variance == "refill",
        "grpo.dynamic_sampling_max_gen_batches": filters.most_refills,
        "grpo.batch_multiplier": 1,
        "grpo.async_grpo.enabled": False,
        **_optimizer(config),
    }


def _loss(objective: Objective) -> dict[str, Any]:
    low, high = clip_bounds(objective)
    truncated = objective.truncated_importance
    return {
        "loss_fn.ratio_clip_min": low,
        "loss_fn.ratio_clip_max": high,
        "loss_fn.ratio_clip_c": None,
        "loss_fn.use_cispo": objective.clip == "cispo",
        "loss_fn.sequence_level_importance_ratios": objective.ratio == "sequence",
        "loss_fn.token_level_loss": objective.aggregation == "token",
        "loss_fn.reference_policy_kl_penalty": objective.kl,
        "loss_fn.reference_policy_kl_type": "k3",
        "loss_fn.kl_input_clamp_value": None,
        "loss_fn.kl_output_clamp_value": None,
        "loss_fn.use_on_policy_kl_approximation": False,
        "loss_fn.use_kl_in_reward": False,
        "loss_fn.use_importance_sampling_correction": truncated is not None,
        "loss_fn.truncated_importance_sampling_type": "tis" if truncated is not None else None,
        "loss_fn.truncated_importance_sampling_ratio": truncated,
        "loss_fn.truncated_importance_sampling_ratio_min": None,
        "loss_fn.force_on_policy_ratio": False,
        "loss_fn.disable_ppo_ratio": False,
    }


def _optimizer(config: TrialConfig) -> dict[str, Any]:
    """Return AdamW and the rate: its schedule goes on once for all updates of a batch of rollouts."""
    optimizer = config.recipe.optimizer
    steps = warmup_batches(config)
    constant = {"name": "torch.optim.lr_scheduler.ConstantLR", "kwargs": {"factor": 1.0, "total_iters": 1}}
    rising = {"start_factor": 1 / max(1, steps), "end_factor": 1.0, "total_iters": max(1, steps - 1)}
    warmup = {"name": "torch.optim.lr_scheduler.LinearLR", "kwargs": rising}
    schedule = [warmup, constant, {"milestones": [steps]}] if steps > 1 else [constant, {"milestones": []}]
    return {
        "policy.optimizer.name": "torch.optim.AdamW",
        "policy.optimizer.kwargs": {
            "lr": config.learning_rate,
            "betas": [optimizer.beta1, optimizer.beta2],
            "eps": optimizer.epsilon,
            "weight_decay": optimizer.weight_decay,
        },
        "policy.scheduler": schedule,
        "policy.max_grad_norm": optimizer.clip_norm or UNCLIPPED,
    }


def differences(recipe: Recipe, machine: Machine) -> Iterator[Difference]:
    """Yield what NeMo-RL would do otherwise."""
    objective = recipe.objective
    its = "sequence" if objective.ratio == "sequence" else "token"
    fixed = "sample" if its == "sequence" else "token" if objective.clip == "cispo" else None
    yield from loss_differences(objective, ("ppo", "none", "cispo"), ("sample", "token"), fixed)
    yield from shared_differences(
        recipe,
        stale="but it is run synchronously",
        dropping="but it keeps groups without a gradient",
        refilling=("but it fails when they do not suffice", "an error after so many"),
        head=machine.weights != "bfloat16",
        sampler=False,
        rising="by batch",
    )
    if objective.truncated_importance is not None and objective.truncated_importance_level != its:
        given = objective.truncated_importance_level
        yield Difference("objective.truncated_importance_level", given, f"but with this ratio it is the {its}'s", its)
    if objective.kl and not objective.kl_weighted:
        yield Difference("objective.kl_weighted", False, "but its KL term has the ratio's gradient", True)
    if objective.entropy:
        yield Difference("objective.entropy", objective.entropy, "which its loss has no term for", 0.0)
