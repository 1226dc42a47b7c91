"""What must not matter: how an update is cut, in which order its rows lie, and how far they are padded."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from planner.recipes.schema import Objective
from runner.grpo.objective import RULES, objective
from tests.runner.grpo.samples import PER_TENSOR, gradients, rows_of, tokens

LONGEST = 4
lengths_of_rows = st.lists(st.integers(0, LONGEST), min_size=2, max_size=8)
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


@given(lengths_of_rows, objectives, seeds, st.data())
def test_micro_batches_add_up_to_the_whole(lengths, settings, seed, data):
    whole = tokens(lengths, LONGEST, seed, rule=settings.aggregation)
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


@given(lengths_of_rows, objectives, seeds, st.randoms(use_true_random=False))
def test_rows_may_lie_in_any_order(lengths, settings, seed, random):
    whole = tokens(lengths, LONGEST, seed, rule=settings.aggregation)
    order = list(range(len(lengths)))
    random.shuffle(order)
    shuffled = rows_of(whole, torch.tensor(order))
    loss, other = objective(whole, settings)[0], objective(shuffled, settings)[0]
    torch.testing.assert_close(other, loss, rtol=0, atol=1e-9)
    torch.testing.assert_close(gradients(other, whole), gradients(loss, whole), rtol=0, atol=1e-9)


@given(lengths_of_rows, objectives, seeds, st.integers(1, 3))
def test_more_padding_changes_nothing(lengths, settings, seed, more):
    whole = tokens(lengths, LONGEST, seed, rule=settings.aggregation)
    widened = {
        name: torch.nn.functional.pad(getattr(whole, name), (0, more), value=-3.0) for name in (*PER_TENSOR, "weights")
    }
    wide = dataclasses.replace(whole, mask=torch.nn.functional.pad(whole.mask, (0, more)), **widened)
    loss, other = objective(whole, settings)[0], objective(wide, settings)[0]
    torch.testing.assert_close(other, loss, rtol=0, atol=1e-9)
    torch.testing.assert_close(gradients(other, whole), gradients(loss, whole), rtol=0, atol=1e-9)
