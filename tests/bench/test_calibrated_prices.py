"""Ten steps of one run, and what another run of its set-up then costs."""

import math

import pytest

from bench.calibrated_prices import SAME, Pair, calibrated_tables, measured_step, pairs
from bench.fit_prices import ROWS
from budgets.coefficients import Coefficients


@pytest.fixture(scope="module")
def found() -> list[Pair]:
    return list(pairs(ROWS))


def test_a_pair_is_of_one_set_up_and_model_and_goes_both_ways(found: list[Pair]) -> None:
    named = {(each.known.name, each.priced.name) for each in found}
    assert all((b, a) in named for a, b in named)
    assert all(each.known.setup == each.priced.setup for each in found)
    assert all(each.known.workload.model == each.priced.workload.model for each in found)


def test_with_lengths_published_ten_steps_meet_the_bar(found: list[Pair]) -> None:
    mine = [each for each in found if each.lengths_known and each.kind != SAME]
    misses = sorted(abs(each.miss(each.after)) for each in mine)
    inside = [abs(each.miss(each.after)) <= 1.645 * each.after.log_sd for each in mine]
    ordered = [each.ordered for each in mine if each.ordered is not None]
    assert len(mine) > 20
    assert math.exp(misses[len(misses) // 2]) <= 1.1
    assert sum(inside) / len(inside) >= 0.85
    assert sum(ordered) / len(ordered) >= 0.75


def test_the_measured_step_of_a_row_is_one_update_of_it(found: list[Pair]) -> None:
    run = next(each.known for each in found if each.known.traits.updates_per_batch == 4 and each.known.seconds)
    step = measured_step(run, Coefficients())
    assert step.whole == pytest.approx((run.seconds or 0) / 4)
    assert step.generated_rollouts == run.rollouts_per_prompt * run.prompts_per_update


def test_the_tables_have_a_row_for_each_difference() -> None:
    misses, orders = (table for _, table in calibrated_tables(ROWS))
    assert {row[0] for row in misses[1:]} >= {"numbers of GPUs", "synchronous or one step off", SAME}
    assert SAME not in {row[0] for row in orders}
