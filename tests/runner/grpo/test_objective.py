"""The objective: by hand, however an update is cut, in whatever order its rows lie, however far they are padded."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError, UnknownNameError
from planner.recipes.schema import Objective
from runner.grpo.objective import RULES, objective, token_weights
from tests.runner.grpo.samples import PER_TENSOR, gradients, one, rows_of, tokens

ALL_TERMS = {"kl": 0.05, "entropy": 0.02, "truncated_importance": 1.2}
CLIPS = ["ppo", "cispo", "soft", "gamma", "none"]
LONGEST = 5
lengths_of_rows = st.lists(st.integers(0, LONGEST), min_size=1, max_size=8)
MOST_TOKENS = 4
several_lengths = st.lists(st.integers(0, MOST_TOKENS), min_size=2, max_size=8)
objectives = st.builds(
    Objective,
    ratio=st.sampled_from(["token", "sequence"]),
    clip=st.sampled_from(["ppo", "cispo", "soft", "gamma", "none"]),
    aggregation=st.sampled_from(RULES),
    truncated_importance=st.sampled_from([None, 1.2]),
    truncated_importance_level=st.sampled_from(["token", "sequence"]),
    kl=st.sampled_from([0.0, 0.05]),
    entropy=st.sampled_from([0.0, 0.02]),
)
seeds = st.integers(0, 1000)


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


def masked(lengths: list[int], longest: int = LONGEST) -> torch.Tensor:
    return torch.arange(longest) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [  # responses of 1, 3, 4 and 0 tokens to prompts 7, 2, 7 and 2
        ("sample", [1 / 4, 1 / 12, 1 / 16, 0]),
        ("prompt", [1 / 10, 1 / 6, 1 / 10, 0]),
        ("token", [1 / 8, 1 / 8, 1 / 8, 0]),
        ("constant", [1 / 20, 1 / 20, 1 / 20, 0]),
        ("sum", [1 / 4, 1 / 4, 1 / 4, 0]),
    ],
)
def test_each_rule_by_hand(rule, expected):
    mask = masked([1, 3, 4, 0])
    weights = token_weights(mask, torch.tensor([7, 2, 7, 2]), rule, LONGEST)
    assert weights.dtype == torch.float32
    torch.testing.assert_close(weights, mask * torch.tensor(expected)[:, None])


def test_there_are_no_other_rules():
    with pytest.raises(UnknownNameError, match=r"unknown aggregation 'tokens': did you mean 'token'"):
        token_weights(masked([1]), torch.tensor([0]), "tokens", LONGEST)


@pytest.mark.parametrize("rule", RULES)
def test_nothing_to_train_on_weighs_nothing(rule):
    assert not token_weights(masked([0, 0]), torch.tensor([0, 1]), rule, LONGEST).any()
    assert token_weights(masked([0, 0])[:0], torch.tensor([], dtype=torch.int64), rule, LONGEST).shape == (0, LONGEST)


@given(st.lists(st.integers(1, LONGEST), min_size=1, max_size=8), st.sampled_from(["sample", "prompt", "token"]))
def test_means_have_weights_that_sum_to_one(lengths, rule):
    groups = torch.arange(len(lengths)) % 3
    assert token_weights(masked(lengths), groups, rule, LONGEST).sum().item() == pytest.approx(1, abs=1e-6)


@given(lengths_of_rows, st.sampled_from(RULES), st.randoms(use_true_random=False))
def test_weights_follow_their_rows_and_ignore_names_of_groups(lengths, rule, random):
    mask, groups = masked(lengths), torch.arange(len(lengths)) // 2
    weights = token_weights(mask, groups, rule, LONGEST)
    order = list(range(len(lengths)))
    random.shuffle(order)
    torch.testing.assert_close(token_weights(mask[order], 100 - 7 * groups[order], rule, LONGEST), weights[order])


@given(lengths_of_rows, st.sampled_from(RULES), st.integers(0, 3))
def test_padding_changes_no_weight(lengths, rule, more):
    groups = torch.arange(len(lengths)) // 2
    weights = token_weights(masked(lengths), groups, rule, LONGEST)
    wider = token_weights(masked(lengths, LONGEST + more), groups, rule, LONGEST)
    assert torch.equal(wider[:, :LONGEST], weights)
    assert not wider[:, LONGEST:].any()


@given(several_lengths, objectives, seeds, st.data())
def test_micro_batches_add_up_to_the_whole(lengths, settings, seed, data):
    whole = tokens(lengths, MOST_TOKENS, seed, rule=settings.aggregation)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(lengths) - 1))))
    parts = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, len(lengths)], strict=True)]
    loss, statistics = objective(whole, settings)
    expected = gradients(loss, whole)
    results = [objective(rows_of(whole, part), settings) for part in parts]
    torch.testing.assert_close(sum(each for each, _ in results), loss, rtol=0, atol=1e-9)
    found = [sum(each) for each in zip(*(gradients(each, whole) for each, _ in results), strict=True)]
    torch.testing.assert_close(found, list(expected), rtol=0, atol=1e-9)
    merged = results[0][1]
    for _, other in results[1:]:
        merged += other
    assert merged.metrics() == pytest.approx(statistics.metrics(), abs=1e-9)


@given(several_lengths, objectives, seeds, st.randoms(use_true_random=False))
def test_rows_may_lie_in_any_order(lengths, settings, seed, random):
    whole = tokens(lengths, MOST_TOKENS, seed, rule=settings.aggregation)
    order = list(range(len(lengths)))
    random.shuffle(order)
    shuffled = rows_of(whole, torch.tensor(order))
    loss, other = objective(whole, settings)[0], objective(shuffled, settings)[0]
    torch.testing.assert_close(other, loss, rtol=0, atol=1e-9)
    torch.testing.assert_close(gradients(other, whole), gradients(loss, whole), rtol=0, atol=1e-9)


@given(several_lengths, objectives, seeds, st.integers(1, 3))
def test_more_padding_changes_nothing(lengths, settings, seed, more):
    whole = tokens(lengths, MOST_TOKENS, seed, rule=settings.aggregation)
    widened = {
        name: torch.nn.functional.pad(getattr(whole, name), (0, more), value=-3.0) for name in (*PER_TENSOR, "weights")
    }
    wide = dataclasses.replace(whole, mask=torch.nn.functional.pad(whole.mask, (0, more)), **widened)
    loss, other = objective(whole, settings)[0], objective(wide, settings)[0]
    torch.testing.assert_close(other, loss, rtol=0, atol=1e-9)
    torch.testing.assert_close(gradients(other, whole), gradients(loss, whole), rtol=0, atol=1e-9)
