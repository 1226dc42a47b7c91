"""What happens to scores and masks before there are advantages."""

from typing import TYPE_CHECKING

from planner.recipes.schema import Rewards

if TYPE_CHECKING:
    from torch import Tensor


def shaped_rewards(scores: "Tensor", lengths: "Tensor", longest: int, settings: Rewards) -> "Tensor":
    """Scale scores (N) of 0 to 1 onto wrong to correct, and add the penalty of overlong responses.

    The penalty is DAPO's (arXiv 2503.14476, equation 13): 0 up to longest − cache tokens, then falling linearly to −1
    at the longest length, where the cache is `overlong_share` of that length.
    """
    rewards = settings.wrong + (settings.correct - settings.wrong) * scores
    cache = settings.overlong_share * longest
    if cache == 0:
        return rewards
    return rewards + ((longest - cache - lengths) / cache).clamp(-1, 0)


def loss_mask(mask: "Tensor", truncated: "Tensor", settings: Rewards) -> "Tensor":
    """Return which tokens (N, T) are trained on: all, or those of responses that were not truncated.

    Leaving truncated responses out is DAPO's overlong filtering (arXiv 2503.14476, section 3.4).
    """
    return mask & ~truncated[:, None] if settings.mask_truncated else mask
