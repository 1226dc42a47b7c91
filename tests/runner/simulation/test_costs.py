import math
import statistics
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.ports.simulation import Costs
from runner.simulation.costs import PERIOD, Cadence, StepSeconds


@given(st.integers(1, 300), st.integers(1, 900), st.integers(-1, 60), st.integers(0, 60))
def test_validations_come_where_a_multiple_of_the_cadence_is_passed(
    rollouts: int, every: int, after: int, further: int
) -> None:
    upto = after + further
    due = [
        step
        for step in range(after + 1, upto + 1)
        if step == 0 or step * rollouts // every > (step - 1) * rollouts // every
    ]
    cadence = Cadence(rollouts, every)
    assert cadence.steps(after, upto) == due
    assert [step for step in range(after + 1, upto + 1) if cadence.due(step)] == due


def seconds(*, spread: float = 0.2, answer: float = 0.01, trial: int = 4, every: int = 96) -> StepSeconds:
    costs = Costs(seconds_per_update=3.0, seconds_per_rollout=0.1, spread=spread, seconds_per_answer=answer)
    return StepSeconds(costs, 1, trial, 32, every, 400)


def test_an_update_is_affine_in_its_rollouts_and_validations_come_on_top() -> None:
    plain = seconds(spread=0.0)
    assert plain.at(0) == pytest.approx(4.0)
    assert plain.at(2) == pytest.approx(4.0 + 2 * 6.2)
    assert plain.at(3) == pytest.approx(2 * 4.0 + 3 * 6.2)
    assert plain.per_update == pytest.approx(6.2 + 4.0 / 3)


def test_validations_are_counted_as_often_as_the_cadence_has_them() -> None:
    every_step = seconds(spread=0.0, every=5)
    assert every_step.at(7) == pytest.approx(8 * 4.0 + 7 * 6.2)


def test_updates_spread_as_stated_and_over_a_period_cost_the_mean() -> None:
    of = seconds(answer=0.0)
    updates = [after - before for before, after in pairwise(of.at(step) for step in range(PERIOD + 1))]
    assert of.at(PERIOD) == pytest.approx(PERIOD * 6.2)
    assert statistics.stdev(map(math.log, updates)) == pytest.approx(0.2, rel=0.05)
    assert of.at(3 * PERIOD + 5) - of.at(3 * PERIOD) == pytest.approx(of.at(5))
    other = seconds(answer=0.0, trial=5)
    assert other.at(10) != pytest.approx(of.at(10), rel=1e-6)


@given(st.floats(0, 1e6))
def test_the_step_at_a_time_is_the_first_that_is_over_then(time: float) -> None:
    of = seconds()
    step = of.step_at(time)
    assert of.at(step) >= time
    assert step == 0 or of.at(step - 1) < time
