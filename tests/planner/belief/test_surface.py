from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.belief.features import features
from planner.belief.pool import joint_of
from planner.belief.surface import with_plan_prior
from planner.view import PARTS, Cell, Configuration, PlanPrior
from tests.planner.belief.sweeps import Curve, configuration, smooth, sweep

CELLS: tuple[Cell, ...] = tuple((n, B) for n in (4, 8, 16, 32) for B in (32, 64, 128))
WEIGHTS = (0.5, 0.3, 0.2)


def told(worlds: Sequence[dict[Cell, Curve]], weights: tuple[float, ...] = WEIGHTS) -> PlanPrior:
    """The prior of a plan that has these worlds."""
    return PlanPrior(
        weights,
        {
            configuration(cell): tuple(
                tuple((world[cell].at(part) - world[cell].start) / (1 - world[cell].start) for part in PARTS)
                for world in worlds
            )
            for cell in worlds[0]
        },
    )


def plan(seed: int) -> PlanPrior:
    return told([smooth(3 * seed + each, CELLS) for each in range(3)])


def at_target(plan_prior: PlanPrior) -> dict[Configuration, float]:
    """The expected gain of each configuration in the end."""
    return {
        each: float(np.dot(plan_prior.weights, [gains[-1] for gains in worlds]))
        for each, worlds in plan_prior.gains.items()
    }


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000))
def test_before_any_curve_the_order_is_the_plans(seed: int) -> None:
    plan_prior = plan(seed)
    worlds = joint_of(replace(sweep(smooth(seed, CELLS), {}), plan_prior=plan_prior), 400)
    expected = at_target(plan_prior)
    ours = dict(zip(worlds.configurations, worlds.at_target.mean(axis=0), strict=True))
    assert expected[max(ours, key=ours.__getitem__)] >= max(expected.values()) - 0.02
    assert np.corrcoef([ours[each] for each in expected], list(expected.values()))[0, 1] > 0.85


def test_runs_are_expected_to_rise_as_late_as_the_plan_says() -> None:
    late = {cell: replace(curve, middle=2.0) for cell, curve in smooth(1, CELLS).items()}
    nothing = sweep(late, {})
    alone, with_plan = (joint_of(each, 400) for each in (nothing, replace(nothing, plan_prior=told([late] * 3))))
    truth = np.mean([curve.at(1.0) for curve in late.values()])
    assert alone.at_target.mean() > truth + 0.1
    assert abs(with_plan.at_target.mean() - truth) < 0.6 * abs(alone.at_target.mean() - truth)


def test_where_studies_disagree_a_run_may_end_where_either_has_it() -> None:
    worlds = [{cell: Curve(0.05, top, middle=0.15, exponent=2.0) for cell in CELLS} for top in (0.99, 0.08)]
    plan_prior = told(worlds, (0.5, 0.5))
    ends = joint_of(replace(sweep(smooth(1, CELLS), {}), plan_prior=plan_prior), 1000).at_target[:, 0]
    low, high = np.quantile(ends, (0.1, 0.85))
    assert low < worlds[1][CELLS[0]].at(1.0) + 0.05
    assert high > worlds[0][CELLS[0]].at(1.0)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 1000))
def test_curves_to_the_end_leave_nothing_of_the_plan(seed: int) -> None:
    truth = smooth(seed, CELLS)
    seen = sweep(truth, dict.fromkeys(CELLS, 100))
    alone, with_plan = (
        joint_of(each, 300).at_target.mean(axis=0) for each in (seen, replace(seen, plan_prior=plan(seed + 1)))
    )
    assert np.abs(alone - with_plan).max() < 0.01


def test_a_plan_that_is_right_helps_where_curves_are_short_and_a_wrong_one_does_little_harm() -> None:
    lost = {"alone": 0.0, "right": 0.0, "wrong": 0.0}
    for seed in range(4):
        truth = smooth(seed, CELLS)
        seen = sweep(truth, dict.fromkeys(CELLS[::3], 6), seed=seed)
        in_the_end = {configuration(cell): curve.at(1.0) for cell, curve in truth.items()}
        right = told([truth, *(smooth(seed + each, CELLS) for each in (50, 70))])
        for name, plan_prior in (("alone", None), ("right", right), ("wrong", plan(seed + 200))):
            worlds = joint_of(replace(seen, plan_prior=plan_prior), 300)
            chosen = worlds.configurations[int(worlds.at_target.mean(axis=0).argmax())]
            lost[name] += (max(in_the_end.values()) - in_the_end[chosen]) / 4
    assert lost["right"] < lost["alone"]
    assert lost["wrong"] < lost["alone"] + 0.05


def test_configurations_that_the_plan_has_not_get_nothing_of_it() -> None:
    plan_prior = plan(1)
    known = [configuration(cell) for cell in CELLS]
    rate = known[0]._replace(axes=(("learning_rate", 0.5),))
    cells = [*known, Configuration(64, 256), rate]
    smooth_ones = features(cells)
    both = with_plan_prior(smooth_ones, cells, plan_prior)
    added = both.design[:, :, smooth_ones.design.shape[2] :]
    assert (added[len(known)] == 0).all()
    assert np.abs(added[len(known) + 1] - added[0]).max() < 1e-9
    assert (both.design[:, :, : smooth_ones.design.shape[2]] == smooth_ones.design).all()
    few = with_plan_prior(smooth_ones, cells, PlanPrior(WEIGHTS, {}))
    assert few is smooth_ones
