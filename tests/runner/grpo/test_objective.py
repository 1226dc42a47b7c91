import dataclasses
import math

import pytest
import torch

from budgets.errors import InputError
from planner.recipes.schema import Objective
from runner.grpo.objective import objective
from tests.runner.grpo.samples import PER_TENSOR, gradients, one, tokens

ALL_TERMS = {"kl": 0.05, "entropy": 0.02, "truncated_importance": 1.2}
CLIPS = ["ppo", "cispo", "soft", "gamma", "none"]


def test_the_kl_term_has_the_weights_of_the_policy_loss_but_neither_ratio_nor_importance():
    made = tokens([3, 1], 3, rule="sample")
    silent = dataclasses.replace(made, advantages=torch.zeros(2))
    loss, _ = objective(silent, Objective(kl=0.5, truncated_importance=1.2))
    gap = made.reference - made.logprobs
    torch.testing.assert_close(loss, 0.5 * ((gap.exp() - gap - 1) * made.weights).sum())


def test_the_entropy_bonus_is_a_mean_over_tokens_under_any_aggregation():
    made = tokens([3, 1], 3, rule="sum")
    without, _ = objective(made, Objective())
    loss, _ = objective(made, Objective(entropy=0.3))
    torch.testing.assert_close(loss - without, -0.3 * made.entropies[made.mask].mean())
    torch.testing.assert_close(gradients(loss, made)[1], -0.3 / 4 * made.mask.double())


def test_nothing_flows_into_old_sampler_or_base_model():
    made = tokens([3, 2], 3)
    watched = {name: getattr(made, name).clone().requires_grad_() for name in ("old", "sampler", "reference")}
    loss, _ = objective(dataclasses.replace(made, **watched), Objective(**ALL_TERMS))
    found = torch.autograd.grad(loss, list(watched.values()), allow_unused=True)
    assert found == (None, None, None)


@pytest.mark.parametrize("term", ["kl", "entropy"])
def test_a_term_without_what_it_needs_is_refused(term):
    with pytest.raises(InputError, match=rf"objective\.{term} = 0\.1 without .* or set it to 0"):
        objective(one(1.0, 1.0), Objective(**{term: 0.1}))


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("garbage", [math.nan, math.inf, -math.inf])
def test_padding_may_hold_anything(clip, level, garbage):
    made = tokens([3, 5, 0, 4], 5)
    settings = Objective(clip=clip, ratio=level, truncated_importance_level=level, **ALL_TERMS)
    loss, statistics = objective(made, settings)
    spoilt = {name: getattr(made, name).detach().masked_fill(~made.mask, garbage) for name in (*PER_TENSOR, "weights")}
    spoilt["advantages"] = made.advantages.masked_fill(~made.mask.any(dim=1), garbage)
    dirty = dataclasses.replace(made, **spoilt)
    dirty.logprobs.requires_grad_()
    dirty.entropies.requires_grad_()
    dirty_loss, dirty_statistics = objective(dirty, settings)
    assert torch.equal(dirty_loss, loss)
    for found, expected in zip(gradients(dirty_loss, dirty), gradients(loss, made), strict=True):
        assert torch.equal(found, expected)
    assert dirty_statistics.metrics() == statistics.metrics()


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_tokens_far_off_policy_leave_everything_finite(clip, level):
    made = tokens([4, 4], 4, spread=200.0)
    single = {name: getattr(made, name).detach().float() for name in (*PER_TENSOR, "weights", "advantages")}
    made = dataclasses.replace(made, **single)
    made.logprobs.requires_grad_()
    loss, _ = objective(
        made, Objective(clip=clip, ratio=level, truncated_importance_level=level, **ALL_TERMS | {"entropy": 0.0})
    )
    assert loss.isfinite()
    assert torch.autograd.grad(loss, made.logprobs)[0].isfinite().all()


def measured(made, settings: Objective) -> dict[str, float]:
    return objective(made, settings)[1].metrics()


@pytest.mark.parametrize(
    ("clip", "ratio", "advantage", "low", "high"),
    [
        ("ppo", 0.5, -1.0, 1, 0),
        ("ppo", 0.5, 1.0, 0, 0),
        ("ppo", 2.0, 1.0, 0, 1),
        ("ppo", 2.0, -1.0, 0, 0),
        ("ppo", 1.0, 1.0, 0, 0),
        ("cispo", 0.5, 1.0, 1, 0),
        ("cispo", 2.0, -1.0, 0, 1),
        ("soft", 2.0, 1.0, 0, 0),
        ("gamma", 0.5, -1.0, 0, 0),
        ("none", 2.0, 1.0, 0, 0),
    ],
)
def test_a_token_counts_as_clipped_where_the_clip_changes_it(clip, ratio, advantage, low, high):
    found = measured(one(ratio, advantage), Objective(clip=clip))
    assert (found["clipped_low_share"], found["clipped_high_share"]) == (low, high)


def test_means_and_maxima_by_hand():
    made = tokens([3, 1], 3, seed=2)
    found = measured(made, Objective(clip="cispo", truncated_importance=1.1))
    ratio = (made.logprobs - made.old).exp()[made.mask]
    mismatch = (made.old - made.sampler)[made.mask]
    base = (made.reference - made.logprobs)[made.mask]
    assert found["ratio_mean"] == pytest.approx(ratio.mean().item())
    assert found["ratio_max"] == pytest.approx(ratio.max().item())
    assert found["clipped_low_share"] == pytest.approx((ratio < 0.8).double().mean().item())
    assert found["clipped_high_share"] == pytest.approx((ratio > 1.2).double().mean().item())
    assert found["mismatch_abs"] == pytest.approx(mismatch.abs().mean().item())
    assert found["mismatch_max"] == pytest.approx(mismatch.abs().max().item())
    assert found["mismatch_kl"] == pytest.approx((mismatch.exp() - mismatch - 1).mean().item())
    assert found["reference_kl"] == pytest.approx((base.exp() - base - 1).mean().item())
    assert found["entropy"] == pytest.approx(made.entropies[made.mask].mean().item())
    assert found["importance_capped_share"] == pytest.approx((mismatch.exp() > 1.1).double().mean().item())


def test_against_the_sampler_the_mismatch_is_that_of_todays_policy():
    made = one(1.5, 1.0)  # old is the sampler's
    assert measured(made, Objective())["mismatch_abs"] == 0
    assert measured(made, Objective(against="sampler"))["mismatch_abs"] == pytest.approx(math.log(1.5))


def test_no_tokens_are_no_division_by_zero():
    assert all(math.isfinite(each) for each in measured(tokens([0, 0], 2), Objective()).values())


def test_sums_keep_nothing_of_the_graph_and_can_count_beyond_single_precision():
    made = tokens([3, 1], 3)
    single = {name: getattr(made, name).detach().float().requires_grad_() for name in ("logprobs", "entropies")}
    made = dataclasses.replace(made, **single, old=made.old.float(), sampler=made.sampler.float())
    _, statistics = objective(made, Objective(kl=0.1, entropy=0.1, truncated_importance=1.1))
    values = [getattr(statistics, name) for name in statistics.__slots__]
    assert [each.dtype for each in values] == [torch.float64] * len(values)
    assert not any(each.requires_grad for each in values)
