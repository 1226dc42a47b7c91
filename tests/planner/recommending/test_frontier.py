"""The frontier around the target, the law of its n, and score against spend."""

import itertools
import math

import pytest

from planner.recommending.choice import Choices
from planner.recommending.frontier import frontier, pareto
from planner.recommending.prospect import Prospect
from tests.planner.recommending.worlds import TARGET, Sigmoids, Surface, facts, sigmoids, surface


def choices(joint: Sigmoids | Surface) -> Choices:
    return Choices(Prospect.of(joint, facts(joint), TARGET), 0.01)


def saturating(gpu_hours: float) -> float:
    """log2 n* from 2 to 6, steepest at half of the target."""
    return 2 + 4 / (1 + math.exp(-6 * (math.log10(gpu_hours) - math.log10(TARGET / 2))))


def test_each_compute_has_its_best_and_a_band() -> None:
    found = frontier(choices(sigmoids({(8, 32): 0.6, (32, 32): 0.8}, middle={(8, 32): 2.0, (32, 32): 60.0}))).points
    assert len(found) == 13
    assert [found[0].gpu_hours, found[6].gpu_hours, found[12].gpu_hours] == pytest.approx([25, 100, 400])
    assert (found[0].choice.rollouts_per_prompt, found[12].choice.rollouts_per_prompt) == (8, 32)
    for point in found:
        assert point.best_low < point.best_expected < point.best_high
        assert point.choice.expected_score <= point.best_expected + 1e-12
        assert point.choice.gpu_hours <= point.gpu_hours * (1 + 1e-9)
        assert point.choice.update_steps * 0.3 == pytest.approx(point.choice.gpu_hours)


def test_a_law_that_saturates_is_found_again() -> None:
    trend = frontier(choices(surface(saturating))).rollouts_per_prompt
    assert trend.grows > 0.99
    assert trend.law is not None
    for gpu_hours in (25.0, 50.0, 100.0, 400.0):
        assert math.log2(trend.law(gpu_hours)) == pytest.approx(saturating(gpu_hours), abs=0.35)
    assert "the best n grows from 25 to 400 GPU-hours" in trend.sentence
    assert "has saturated near 6" in trend.sentence
    assert trend.edge is None


def test_a_fall_is_a_fall() -> None:
    trend = frontier(choices(surface(lambda x: 8 - saturating(x)))).rollouts_per_prompt
    assert trend.falls > 0.99
    assert "the best n falls" in trend.sentence


def test_what_does_not_move_has_no_law() -> None:
    found = frontier(choices(surface(lambda x: 4.1)))
    trend = found.rollouts_per_prompt
    assert trend.law is None
    assert trend.stays > 0.9
    assert "the best n is not seen to move from 25 to 400 GPU-hours: about 1" in trend.sentence
    assert found.rollouts_per_step.mean[6] == pytest.approx(32 * trend.mean[6])


@pytest.mark.parametrize(("best", "edge"), [(9.0, "largest"), (-1.0, "smallest")])
def test_the_edge_of_the_grid_is_said(best: float, edge: str) -> None:
    trend = frontier(choices(surface(lambda x: best))).rollouts_per_prompt
    assert trend.edge == edge
    assert f"it is likeliest the {edge} of the grid, so that it may lie beyond" in trend.sentence


def test_no_dearer_choice_on_the_front_is_worse() -> None:
    found = pareto(
        choices(sigmoids({(8, 32): 0.6, (32, 32): 0.8}, falls_at={(8, 32): 30.0, (32, 32): 150.0}, middle=2.0))
    )
    spent = [point.gpu_hours for point in found.points]
    scores = [point.expected_score for point in found.points]
    assert spent == sorted(spent)
    assert all(one < other for one, other in itertools.pairwise(scores))
    assert spent[-1] <= 150  # more is worse
    assert found.enough is not None
    assert found.enough.expected_score >= scores[-1] - 0.03
    assert found.enough.gpu_hours < TARGET


def test_computes_that_pay_for_no_step_are_left_out() -> None:
    joint = sigmoids({(8, 32): 0.6, (32, 32): 0.8})
    seen = Prospect.of(joint, facts(joint, gpu_hours_per_step=0.9 * TARGET), TARGET)
    found = frontier(Choices(seen, 0.01))
    assert found.points[0].gpu_hours == TARGET
    assert len(found.rollouts_per_prompt.gpu_hours) == len(found.points) == 7
