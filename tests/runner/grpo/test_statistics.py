import dataclasses
import math

import pytest
import torch

from planner.recipes.schema import Objective
from runner.grpo.objective import objective
from tests.runner.grpo.samples import one, tokens


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


def test_the_tokens_of_a_capped_response_are_all_capped():
    made = tokens([3, 1], 3)
    made.sampler[0], made.sampler[1] = made.old[0] - 1, made.old[1] + 1
    settings = Objective(truncated_importance=2.0, truncated_importance_level="sequence")
    assert measured(made, settings)["importance_capped_share"] == 0.75


def test_against_the_sampler_the_mismatch_is_that_of_todays_policy():
    made = one(1.5, 1.0)  # old is the sampler's
    assert measured(made, Objective())["mismatch_abs"] == 0
    assert measured(made, Objective(against="sampler"))["mismatch_abs"] == pytest.approx(math.log(1.5))


def test_what_was_not_given_is_left_out():
    found = measured(one(1.0, 1.0), Objective())
    assert {"entropy", "reference_kl"}.isdisjoint(found)
    assert {"entropy", "reference_kl"} <= set(measured(tokens([2], 2), Objective()))


def test_no_tokens_are_no_division_by_zero():
    assert all(math.isfinite(each) for each in measured(tokens([0, 0], 2), Objective()).values())


def test_sums_add_and_maxima_do_not():
    first, second = (objective(one(ratio, 1.0), Objective())[1] for ratio in (2.0, 0.5))
    both = first + second
    assert both.tokens == 2
    assert both.ratio_sum.item() == pytest.approx(2.5)
    assert both.ratio_max.item() == pytest.approx(2.0)
    assert both.entropy_sum is None


def test_sums_keep_nothing_of_the_graph_and_can_count_beyond_single_precision():
    made = tokens([3, 1], 3)
    single = {name: getattr(made, name).detach().float().requires_grad_() for name in ("logprobs", "entropies")}
    made = dataclasses.replace(made, **single, old=made.old.float(), sampler=made.sampler.float())
    _, statistics = objective(made, Objective(kl=0.1, entropy=0.1, truncated_importance=1.1))
    values = [getattr(statistics, name) for name in statistics.__slots__]
    assert [each.dtype for each in values] == [torch.float64] * len(values)
    assert not any(each.requires_grad for each in values)
