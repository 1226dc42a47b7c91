"""Recipes, models and learning rates beside n and B: priced, ranked and piloted together."""

import math
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets import catalogue
from planner.proposals import Proposal, Variant, propose
from planner.proposals.pilots import PILOTS_APART, octaves
from planner.proposals.request import Request
from planner.recipes import load_recipe
from planner.rules import GridBounds, PilotRules
from planner.view import Configuration
from tests.planner.proposals.requests import request
from tests.planner.proposals.test_propose import check_promises

GRID = GridBounds(most_rollouts_per_prompt=256, most_prompts_per_batch=256)  # fewer cells, to be quick
RECIPES, MODELS, FACTORS = ("grpo", "scalerl", "dapo"), ("qwen3-4b", "qwen2.5-7b"), (1.0, 0.3, 3.0)


def compared(
    base: Request, recipes: tuple[str, ...] = (), models: tuple[str, ...] = (), factors: tuple[float, ...] = ()
) -> Request:
    """The request over every combination of values; an axis with fewer than two is none."""
    variants = []
    for recipe, model, factor in product(recipes or (None,), models or (None,), factors or (None,)):
        axes = {"recipe": recipe, "model": model, "learning_rate": factor}
        variants.append(
            Variant(
                axes=tuple((name, value) for name, value in axes.items() if value is not None),
                workload=replace(base.workload, model=catalogue.model(model)) if model else base.workload,
                traits=load_recipe(recipe).traits() if recipe else base.traits,
                learning_rate_factor=factor or 1.0,
            )
        )
    return replace(base, variants=tuple(variants), workload=variants[0].workload, traits=variants[0].traits)


def pilots(proposal: Proposal) -> list[Configuration]:
    return [candidate.cell.configuration for candidate in proposal.candidates if candidate.pilot.steps]


@given(
    st.builds(
        compared,
        st.builds(
            request,
            st.floats(800, 3e5),
            gpus=st.sampled_from([16, 64]),
            difficulty=st.sampled_from(["easy", "mixed"]),
            pilots=st.builds(
                PilotRules,
                fraction=st.floats(0.05, 0.6),
                most_pilots=st.integers(2, 16),
                cells=st.sampled_from(["informative", "all"]),
            ),
            grid=st.just(GRID),
        ),
        recipes=st.sampled_from([(), RECIPES[:2], RECIPES]),
        models=st.sampled_from([(), MODELS]),
        factors=st.sampled_from([(), FACTORS]),
    )
)
@settings(max_examples=6, deadline=None)
def test_the_promises_of_the_contract_hold_over_the_joint_space(wanted: Request) -> None:
    check_promises(wanted)


@given(
    budget=st.floats(4e4, 3e5),
    recipes=st.sampled_from([RECIPES[:2], RECIPES]),
    models=st.sampled_from([(), MODELS]),
    most=st.integers(8, 16),
)
@settings(max_examples=5, deadline=None)
def test_every_value_has_pilots_that_fill_its_grid(
    budget: float, recipes: tuple[str, ...], models: tuple[str, ...], most: int
) -> None:
    chosen = pilots(propose(compared(request(budget, pilots=PilotRules(most_pilots=most), grid=GRID), recipes, models)))
    assert len(chosen) == most
    for axis, values in enumerate(filter(None, (recipes, models))):
        count = Counter(each.axes[axis][1] for each in chosen)
        assert set(count) == set(values)
        assert min(count.values()) >= len(chosen) // (2 * len(values))
        for value in values:
            cells = {each[:2] for each in chosen if each.axes[axis][1] == value}
            assert len(cells) >= min(count[value], 2), "a value is not tried at one cell again and again"
    for i, a in enumerate(chosen):
        assert all(octaves(a, b) >= PILOTS_APART for b in chosen[i + 1 :])


def test_each_variant_is_priced_by_its_own_recipe_and_model() -> None:
    both = propose(compared(request(20_000.0, grid=GRID), RECIPES[:2], MODELS))
    for recipe, model in product(RECIPES[:2], MODELS):
        rules = PilotRules(fraction=0.2, gpus=both.request.pilots.gpus)
        alone = propose(request(20_000.0, recipe=recipe, model=model, grid=GRID, pilots=rules))
        prices = {candidate.cell.key: candidate.cell.cost.gpu_hours_per_step for candidate in alone.candidates}
        axes = (("recipe", recipe), ("model", model))
        own = {c.cell.key: c.cell.cost.gpu_hours_per_step for c in both.candidates if c.axes == axes}
        assert own == prices
    assert {candidate.axes for candidate in both.candidates} == {variant.axes for variant in both.request.variants}


def test_factors_scale_the_rule_and_its_own_rate_ranks_first_among_equals() -> None:
    candidates = propose(compared(request(20_000.0), factors=FACTORS)).candidates
    rates = {
        candidate.axes[0][1]: candidate.learning_rate for candidate in candidates if candidate.cell.key == (64, 64)
    }
    assert rates[0.3] == pytest.approx(0.3 * rates[1.0])
    assert rates[3.0] == pytest.approx(3 * rates[1.0])
    assert candidates[0].axes == (("learning_rate", 1.0),)


@pytest.mark.parametrize(("between", "first"), [((0.3, 3.0), 1.0), ((2.0, 8.0), 2.0), ((0.01, 0.5), 0.5)])
def test_a_range_is_covered_evenly_from_the_start(between: tuple[float, float], first: float) -> None:
    wanted = replace(request(20_000.0), learning_rate_range=between)
    candidates = propose(wanted).candidates
    rates = [float(candidate.axes[0][1]) for candidate in candidates if candidate.pilot.steps]
    low, high = between
    assert rates[0] == first
    assert all(low <= rate <= high for rate in rates)
    places = sorted(math.log(rate / low) / math.log(high / low) for rate in rates[1:])
    assert len(set(rates)) >= len(rates) - 1
    assert max(b - a for a, b in zip([0.0, *places], [*places, 1.0], strict=True)) < 0.3
    assert {candidate.axes for candidate in candidates if not candidate.pilot.steps} == {(("learning_rate", first),)}
    for candidate in candidates:
        assert candidate.learning_rate == pytest.approx(
            float(candidate.axes[0][1]) * candidate.cell.allocation.learning_rate(1e-6, 1024)
        )
    plain = propose(request(20_000.0)).candidates
    assert [c.cell.key for c in plain if c.pilot.steps] == [c.cell.key for c in candidates if c.pilot.steps]
