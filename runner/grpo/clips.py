"""The policy loss of a token under each clip; on policy the gradient of all of them is −A to the log-probability."""

import math
from typing import TYPE_CHECKING

from planner.recipes.schema import Objective
from runner.grpo.ratios import LARGEST_LOG_RATIO

if TYPE_CHECKING:
    from torch import Tensor

# VESPO (arXiv 2602.10693): exponent k and rate λ of its gamma weight, for advantages of at least 0 and for others.
GAMMA_POSITIVE = (2.0, 3.0)
GAMMA_NEGATIVE = (3.0, 2.0)
LEAST_LOG_WEIGHT = math.log(1e-8)


def ppo(ratio: "Tensor", advantages: "Tensor", settings: Objective) -> "Tensor":
    """Return the pessimistic one of plain and clipped surrogate (PPO, arXiv 1707.06347, equation 7)."""
    return -(ratio * advantages).minimum(_clipped(ratio, settings) * advantages)


def cispo(ratio: "Tensor", logprobs: "Tensor", advantages: "Tensor", settings: Objective) -> "Tensor":
    """Weigh the log-probability by the clipped ratio, which gets no gradient (MiniMax-M1, arXiv 2506.13585)."""
    return -_clipped(ratio, settings).detach() * advantages * logprobs


def soft(ratio: "Tensor", advantages: "Tensor", settings: Objective) -> "Tensor":
    """Gate the ratio by a sigmoid that is steepest on policy (SAPO, arXiv 2511.20347)."""
    positive = advantages.new_full(advantages.shape, settings.soft_positive)
    temperature = positive.where(advantages > 0, settings.soft_negative)
    return -(temperature * (ratio - 1)).sigmoid() * 4 / temperature * advantages


def gamma(
    log_ratio: "Tensor", logprobs: "Tensor", advantages: "Tensor", importance: "Tensor | None" = None
) -> "Tensor":
    """Weigh the log-probabilities of a response by e^λ · w^k · e^(−λ·w) of its ratio w (VESPO, arXiv 2602.10693).

    w is the product over the response's tokens, and over their sampler corrections where there are any.
    """
    log_weight = log_ratio.detach().clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).sum(dim=1, keepdim=True)
    if importance is not None:
        log_weight = log_weight + importance.log().clamp(min=LEAST_LOG_WEIGHT).sum(dim=1, keepdim=True)
    log_weight = log_weight.clamp(LEAST_LOG_WEIGHT, LARGEST_LOG_RATIO)
    positive, negative = (
        (rate + exponent * log_weight - rate * log_weight.exp()).exp()
        for exponent, rate in (GAMMA_POSITIVE, GAMMA_NEGATIVE)
    )
    return -positive.where(advantages >= 0, negative) * advantages * logprobs


def none(ratio: "Tensor", advantages: "Tensor") -> "Tensor":
    """Return the plain surrogate: importance-weighted policy gradient."""
    return -ratio * advantages


def clipped_tokens(ratio: "Tensor", advantages: "Tensor", settings: Objective) -> "tuple[Tensor, Tensor]":
    """Return which tokens (N, T) the lower and the upper bound change; PPO's each bind for one sign of advantage."""
    low, high = _bounds(settings)
    below, above = ratio < low, ratio > high
    if settings.clip == "ppo":
        return below & (advantages < 0), above & (advantages > 0)
    if settings.clip == "cispo":
        return below, above
    return below & False, above & False


def _clipped(ratio: "Tensor", settings: Objective) -> "Tensor":
    low, high = _bounds(settings)
    return ratio.clamp(low, high)


def _bounds(settings: Objective) -> tuple[float, float]:
    low = -math.inf if settings.clip_low is None else 1 - settings.clip_low
    high = math.inf if settings.clip_high is None else 1 + settings.clip_high
    return low, high
