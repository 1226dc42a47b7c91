"""How much likelier a token or a response is under one set of weights than under another."""

from typing import TYPE_CHECKING

from planner.recipes.schema import Objective

if TYPE_CHECKING:
    from torch import Tensor

LARGEST_LOG_RATIO = 20.0  # e^20 is far beyond every clip; beyond e^88 a float32 has no gradient but NaN


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

    Args:
        log_ratio: Trainer's less sampler's log-probabilities (N, T), 0 at padding.
        settings: The recipe's objective.
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
