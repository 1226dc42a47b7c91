"""The policy loss of a token under each clip; on policy the gradient of all of them is −A to the log-probability."""

import math
from typing import TYPE_CHECKING

from planner.recipes.schema import Objective

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_LOG_RATIO = 20.0  # e^20 is far beyond every clip; beyond e^88 a float32 has no gradient but NaN
# VESPO (arXiv 2602.10693): exponent k and rate λ of its gamma weight, for advantages of at least 0 and for others.
GAMMA_POSITIVE = (2.0, 3.0)
GAMMA_NEGATIVE = (3.0, 2.0)
LEAST_LOG_WEIGHT = math.log(1e-8)


def bounded_exp(log_ratio: "Tensor") -> "Tensor":
    """Return e^x, without a gradient where |x| exceeds 20, as verl does."""
    return log_ratio.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp()


def probability_ratio(log_ratio: "Tensor", mask: "Tensor", level: str) -> "Tensor":
    """Return the ratio that each token (N, T) is weighed by; log-ratios at padding must be 0.

    Level `sequence` gives all tokens of a response the geometric mean of their ratios (GSPO, arXiv 2507.18071,
    equation 7), level `token` each its own.
    """
    if level == "token":
        return bounded_exp(log_ratio)
    mean = log_ratio.sum(dim=1, keepdim=True) / mask.sum(dim=1, keepdim=True).clamp(min=1)
    return bounded_exp(mean).expand_as(log_ratio)


def truncated_importance(log_ratio: "Tensor", settings: Objective) -> "tuple[Tensor, Tensor] | None":
    """Return min(trainer ÷ sampler, cap) and where the cap binds, of each token (N, T) or response (N, 1).

    Truncated importance sampling (TIS) corrects for a sampler whose probabilities are not the trainer's; the ratio of a
    response is the product over its tokens. A ratio against the sampler contains that correction already, hence None.
    The log-ratio (N, T) is the trainer's less the sampler's, 0 at padding.
    """
    cap = settings.truncated_importance
    if cap is None or settings.against == "sampler":
        return None
    if settings.truncated_importance_level == "sequence":
        log_ratio = log_ratio.sum(dim=1, keepdim=True)
    ratio = log_ratio.exp()  # infinite at worst, and then capped; nothing flows back through it
    return ratio.clamp(max=cap), ratio > cap


def k3(log_ratio: "Tensor") -> "Tensor":
    """Return r − ln r − 1 with r = e^log_ratio: Schulman's low-variance estimate of the KL divergence.

    With tokens drawn from p and r = q ÷ p its mean is KL(p ‖ q), and it is never negative.
    """
    bounded = log_ratio.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    return bounded.expm1() - bounded


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
