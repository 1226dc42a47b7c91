"""How long a final run is: in whole validations, within its GPU-hours, and not as often scored as its pilot."""

import pytest

from planner.recommend.facts import FinalPrice
from planner.view import ScorePoint


@pytest.mark.parametrize("begun", [0, 130])
@pytest.mark.parametrize("validation", [0.0, 0.5])
@pytest.mark.parametrize("validations", [1, 8, 40])
def test_a_run_ends_with_a_validation_and_leaves_no_segment_unpaid(
    begun: int, validation: float, validations: int
) -> None:
    price = FinalPrice(0.1, validation, start_up=0.2, slots=8, begun=begun)
    run = price.length(100.0, validations)
    assert run.steps % run.segment_steps == 0
    assert run.steps > begun
    segment = run.segment_steps * run.gpu_hours_per_step
    assert 100.0 - 1.5 * segment < run.gpu_hours < 100.0


def test_a_run_that_cannot_reach_its_first_validation_makes_no_update_more() -> None:
    price = FinalPrice(0.1, start_up=2.0, begun=50)
    assert price.length(2.0).steps == 50
    assert price.length(2.0).least_gpu_hours > 2.0
    assert FinalPrice(0.1, most_steps=120).length(100.0).steps == 120


def test_a_pilot_that_was_scored_often_prices_a_run_that_is_scored_seldom() -> None:
    """Half of the pilot's time was validations, every ten updates."""
    scores = [ScorePoint(10 * number, 2.0 * number, 0.5, None, 1.0) for number in range(5)]
    update, validation = FinalPrice.split(0.2, scores)
    assert (update, validation) == (pytest.approx(0.1), pytest.approx(1.0))
    seldom = FinalPrice(update, validation).length(100.0, 10)
    assert seldom.steps > 1.5 * FinalPrice(0.2).length(100.0, 10).steps
    assert FinalPrice.split(0.2, [score._replace(validation_gpu_hours=0.0) for score in scores]) == (0.2, 0.0)
