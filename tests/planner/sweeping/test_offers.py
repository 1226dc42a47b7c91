from dataclasses import replace

import pytest

from planner.sweeping.offers import money_of, offers
from planner.trials import TrialState
from tests.planner.sweeping.views import trial, view


def test_of_seeds_that_have_not_begun_one_is_offered() -> None:
    seeds = [trial(number, cell=(8, 32), seed=number) for number in range(1, 5)]
    begun = trial(9, TrialState.PAUSED, step=20, cell=(8, 32))
    seen = view([*seeds, begun, trial(10, cell=(8, 64))])
    assert {each.trial.trial for each in offers(seen, money_of(seen)) if each.trial} == {1, 9, 10}


def test_finalists_are_offered_with_another_seed_where_the_view_allows_it() -> None:
    first = trial(1, TrialState.PAUSED, step=60, cell=(8, 32))
    second = trial(2, TrialState.FINISHED, step=100, cell=(8, 32), seed=3)
    other = trial(3, TrialState.PAUSED, step=60, cell=(64, 256))
    seen = replace(view([first, second, other], left=500.0), replicates=True)
    (offer,) = [each for each in offers(seen, 700.0, [first.configuration]) if each.trial is None]
    assert (offer.configuration, offer.seed, offer.to_step, offer.from_gpu_hours) == (first.configuration, 4, 100, 0.0)
    assert offer.price == first.start_up_gpu_hours + 100 * first.gpu_hours_per_step
    assert all(each.trial for each in offers(seen, 700.0))
    assert all(each.trial for each in offers(replace(seen, replicates=False), 700.0, [first.configuration]))
    waiting = replace(seen, trials={**seen.trials, 4: trial(4, cell=(8, 32), seed=4)})
    assert all(each.trial for each in offers(waiting, 700.0, [first.configuration]))
    poor = replace(seen, gpu_hours_left=offer.price)
    assert all(each.trial for each in offers(poor, 700.0, [first.configuration]))


@pytest.mark.parametrize("start_up", [0.0, 3.0, 40.0])
def test_no_segment_is_shorter_than_the_start_up_before_it(start_up: float) -> None:
    one = trial(1, TrialState.PAUSED, step=5, gpu_hours_per_step=0.1, start_up_gpu_hours=start_up, most_steps=5000)
    found = offers(view([one], left=200.0), 200.0)
    assert found
    assert all((each.to_step - one.step) * one.gpu_hours_per_step >= start_up for each in found)
