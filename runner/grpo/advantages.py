"""From scores to advantages: the recipe's shaping, then every reward less its group's mean, on one of three scales."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from planner.recipes.schema import Advantage, Rewards

EPSILON = 1e-4  # added to a deviation where the recipe says nothing: TRL's


def shaped_rewards(scores: "Tensor", lengths: "Tensor", longest: int, settings: "Rewards") -> "Tensor":
    """Scale scores (N) of 0 to 1 onto wrong to correct, and add the penalty of overlong responses.

    The penalty is DAPO's (arXiv 2503.14476, equation 13): 0 up to longest − cache tokens, then falling linearly to −1
    at the longest length, where the cache is `overlong_share` of that length.
    """
    rewards = settings.wrong + (settings.correct - settings.wrong) * scores
    cache = settings.overlong_share * longest
    if cache == 0:
        return rewards
    return rewards + ((longest - cache - lengths) / cache).clamp(-1, 0)


def loss_mask(mask: "Tensor", truncated: "Tensor", settings: "Rewards") -> "Tensor":
    """Return which tokens (N, T) are trained on: all, or those of responses that were not truncated.

    Leaving truncated responses out is DAPO's overlong filtering (arXiv 2503.14476, section 3.4).
    """
    return mask & ~truncated[:, None] if settings.mask_truncated else mask


def advantages(rewards: "Tensor", per_prompt: int, settings: "Advantage") -> "Tensor":
    """Return the advantage of each reward (N), where row i·n + j is response j to prompt i.

    Scales: `group` divides by the standard deviation of the group's rewards (GRPO, arXiv 2402.03300), `batch` by that
    of all advantages given (ScaleRL, arXiv 2510.13786), `none` by nothing (Dr. GRPO, arXiv 2503.20783). Standard
    deviations are those of a sample (n − 1). A group whose rewards are all alike gets exactly 0.
    """
    groups = rewards.reshape(-1, per_prompt)
    informative = has_signal(rewards, per_prompt)[:, None]
    centred = (groups - groups.mean(dim=1, keepdim=True)).where(informative, 0.0)
    # Both means are 0 by now, so that only the squares are left to sum.
    if settings.scale == "group":
        deviation = (centred.square().sum(dim=1, keepdim=True) / max(per_prompt - 1, 1)).sqrt()
    elif settings.scale == "batch":
        deviation = (centred.square().sum() / max(rewards.numel() - 1, 1)).sqrt()
    else:
        return centred.reshape(-1)
    # Without an epsilon, 0 ÷ 0 would turn a group without signal into NaN.
    epsilon = EPSILON if settings.epsilon is None else settings.epsilon
    return (centred / (deviation + epsilon).where(informative, 1.0)).reshape(-1)


def has_signal(rewards: "Tensor", per_prompt: int) -> "Tensor":
    """Return for each of the N ÷ n groups whether its rewards differ, without which it teaches nothing."""
    groups = rewards.reshape(-1, per_prompt)
    return groups.amax(dim=1) != groups.amin(dim=1)
