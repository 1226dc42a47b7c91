"""The GRPO objective: from log-probabilities and advantages to one loss whose gradients add over micro-batches."""

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from budgets.errors import InputError, UnknownNameError
from planner.recipes.schema import Objective

if TYPE_CHECKING:
    from torch import Tensor

RULES = ("sample", "prompt", "token", "constant", "sum")
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


def token_weights(mask: "Tensor", groups: "Tensor", rule: str, longest: int) -> "Tensor":
    """Return the weights (N, T) with which Σ weight · loss of a token is the loss of the update.

    | rule | weight of a token | source |
    |---|---|---|
    | sample | 1 ÷ (tokens of its response · N) | GRPO, arXiv 2402.03300 |
    | prompt | 1 ÷ (tokens of its prompt's group · prompts) | DAPO as ScaleRL reads it, arXiv 2510.13786 |
    | token | 1 ÷ tokens of the update | DAPO as libraries implement it |
    | constant | 1 ÷ (longest · N) | Dr. GRPO, arXiv 2503.20783 |
    | sum | 1 ÷ N | LUSPO, arXiv 2602.05261 |

    A response without a token in the mask still counts in N, and a prompt among prompts. `groups` labels each
    response's prompt (N): equal numbers, equal prompt, in any order. `longest` is the longest allowed response.
    """
    import torch

    counted = mask.float()
    lengths = counted.sum(dim=1, keepdim=True)
    responses = max(mask.shape[0], 1)
    if rule == "sample":
        return counted / (lengths.clamp(min=1) * responses)
    if rule == "prompt":
        prompts, prompt_of = torch.unique(groups, return_inverse=True)
        totals = lengths.new_zeros(len(prompts), 1).index_add(0, prompt_of, lengths)
        return counted / (totals[prompt_of].clamp(min=1) * max(len(prompts), 1))
    if rule == "token":
        return counted / lengths.sum().clamp(min=1)
    if rule == "constant":
        return counted / (responses * max(longest, 1))
    if rule == "sum":
        return counted / responses
    raise UnknownNameError("aggregation", rule, RULES)


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Sums and maxima over the trained tokens, as scalars on their device; None is what was not given."""

    tokens: "Tensor"
    clipped_low: "Tensor"  # tokens that the lower bound of the clip changed
    clipped_high: "Tensor"
    ratio_sum: "Tensor"
    ratio_max: "Tensor"
    entropy_sum: "Tensor | None"
    reference_kl_sum: "Tensor | None"  # k3 of the base model against the policy
    mismatch_kl_sum: "Tensor"  # k3 of trainer against sampler
    mismatch_abs_sum: "Tensor"  # |trainer's − sampler's log-probability|
    mismatch_max: "Tensor"
    importance_capped: "Tensor"  # tokens whose truncated importance weight is at its cap

    def __add__(self, other: "Statistics") -> "Statistics":
        merged: dict[str, Any] = {}
        for field in fields(self):
            mine, its = getattr(self, field.name), getattr(other, field.name)
            if mine is None or its is None:
                merged[field.name] = None
            else:
                merged[field.name] = mine.maximum(its) if field.name.endswith("_max") else mine + its
        return Statistics(**merged)

    def metrics(self) -> dict[str, float]:
        """Return shares of and means over the tokens; what was not given is left out."""
        import torch

        count = self.tokens.clamp(min=1)
        scalars = {
            "clipped_low_share": self.clipped_low / count,
            "clipped_high_share": self.clipped_high / count,
            "ratio_mean": self.ratio_sum / count,
            "ratio_max": self.ratio_max,
            "mismatch_kl": self.mismatch_kl_sum / count,
            "mismatch_abs": self.mismatch_abs_sum / count,
            "mismatch_max": self.mismatch_max,
            "importance_capped_share": self.importance_capped / count,
        }
        if self.entropy_sum is not None:
            scalars["entropy"] = self.entropy_sum / count
        if self.reference_kl_sum is not None:
            scalars["reference_kl"] = self.reference_kl_sum / count
        # One transfer from the device rather than one for each.
        return dict(zip(scalars, torch.stack(list(scalars.values())).tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of a micro-batch and all that the loss needs to know of them; padding may hold anything."""

    logprobs: "Tensor"  # (N, T) the policy's, with gradient
    old: "Tensor"  # (N, T) what the ratio is against: the trainer's when the batch was new, or the sampler's
    sampler: "Tensor"  # (N, T) the sampler's
    reference: "Tensor | None"  # (N, T) the base model's
    entropies: "Tensor | None"  # (N, T) of the policy's distributions, with gradient if there is a bonus
    advantages: "Tensor"  # (N,)
    mask: "Tensor"  # (N, T) bool: tokens that are trained on
    weights: "Tensor"  # (N, T) from `token_weights` of the whole update
    entropy_weight: float  # 1 ÷ trained tokens of the whole update


def objective(tokens: Tokens, settings: Objective) -> "tuple[Tensor, Statistics]":
    """Return the loss to minimise, and what it did.

    Loss = Σ weight · (importance · policy loss + kl · k3(reference ÷ policy)) − entropy · Σ entropies ÷ tokens, with
    k3 · ratio in place of k3 where the recipe says so. The sum over the micro-batches of an update is the loss of the
    update, whatever the aggregation.
    """
    _check(tokens, settings)
    tokens = _without_padding(tokens)
    log_ratio = tokens.logprobs - tokens.old
    ratio = probability_ratio(log_ratio, tokens.mask, settings.ratio)
    # A ratio against the sampler has no other trainer to compare with than today's.
    trainer = tokens.old if settings.against == "trainer" else tokens.logprobs.detach()
    mismatch = trainer - tokens.sampler
    weight_and_cap = truncated_importance(mismatch, settings)
    importance, capped = weight_and_cap or (None, tokens.mask & False)

    losses = _policy_losses(tokens, log_ratio, ratio, importance, settings)
    reference_kl = None if tokens.reference is None else k3(tokens.reference - tokens.logprobs)
    if reference_kl is not None and settings.kl > 0:
        losses = losses + settings.kl * (reference_kl * ratio if settings.kl_weighted else reference_kl)
    loss = (losses * tokens.weights).sum()
    if tokens.entropies is not None and settings.entropy > 0:
        loss = loss - settings.entropy * tokens.entropy_weight * tokens.entropies.sum()
    return loss, _statistics(tokens, ratio, mismatch, capped, reference_kl, settings)


def _policy_losses(
    tokens: Tokens, log_ratio: "Tensor", ratio: "Tensor", importance: "Tensor | None", settings: Objective
) -> "Tensor":
    advantages = tokens.advantages[:, None]
    if settings.clip == "gamma":  # the correction is part of its weight
        return gamma(log_ratio, tokens.logprobs, advantages, importance)
    if settings.clip == "ppo":
        losses = ppo(ratio, advantages, settings)
    elif settings.clip == "cispo":
        losses = cispo(ratio, tokens.logprobs, advantages, settings)
    elif settings.clip == "soft":
        losses = soft(ratio, advantages, settings)
    else:
        losses = -ratio * advantages  # the plain surrogate: importance-weighted policy gradient
    return losses if importance is None else losses * importance


def _check(tokens: Tokens, settings: Objective) -> None:
    if settings.kl > 0 and tokens.reference is None:
        raise InputError(
            f"objective.kl = {settings.kl:g} without the base model's log-probabilities: give them as `reference`, or "
            "set it to 0"
        )
    if settings.entropy > 0 and tokens.entropies is None:
        raise InputError(
            f"objective.entropy = {settings.entropy:g} without entropies: give them as `entropies`, or set it to 0"
        )


def _without_padding(tokens: Tokens) -> Tokens:
    """Replace everything at padding by 0 before it is computed with: NaN times 0 would stay NaN, in gradients too."""
    mask = tokens.mask

    def clean(values: "Tensor") -> "Tensor":
        return values.where(mask, 0.0)

    return replace(
        tokens,
        logprobs=clean(tokens.logprobs),
        old=clean(tokens.old.detach()),
        sampler=clean(tokens.sampler.detach()),
        reference=None if tokens.reference is None else clean(tokens.reference.detach()),
        entropies=None if tokens.entropies is None else clean(tokens.entropies),
        advantages=tokens.advantages.detach().where(mask.any(dim=1), 0.0),
        weights=clean(tokens.weights),
    )


def _statistics(
    tokens: Tokens,
    ratio: "Tensor",
    mismatch: "Tensor",
    capped: "Tensor",
    reference_kl: "Tensor | None",
    settings: Objective,
) -> Statistics:
    mask = tokens.mask
    ratio = ratio.detach().where(mask, 0.0)
    low, high = clipped_tokens(ratio, tokens.advantages[:, None], settings)

    def total(values: "Tensor") -> "Tensor":
        return values.detach().double().sum()  # a float32 cannot count beyond 16 million tokens

    return Statistics(
        tokens=total(mask),
        clipped_low=total(low & mask),
        clipped_high=total(high & mask),
        ratio_sum=total(ratio),
        ratio_max=ratio.amax().double(),
        entropy_sum=None if tokens.entropies is None else total(tokens.entropies),
        reference_kl_sum=None if reference_kl is None else total(reference_kl),
        mismatch_kl_sum=total(k3(mismatch)),
        mismatch_abs_sum=total(mismatch.abs()),
        mismatch_max=mismatch.abs().amax().double(),
        importance_capped=total(capped & mask),
    )
