from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.sweeping.grants import MARGIN
from planner.sweeping.offers import (
    MOST_OF_A_CONFIGURATION,
    MOST_PILOT,
    QUANTA,
    Offer,
    first_goal,
    money_of,
    offers,
    pending,
)
from planner.trials import TrialState
from planner.view import OpenCell, TrialView
from tests.planner.sweeping.views import trial, view

STATES = st.sampled_from(list(TrialState))


@st.composite
def trials(draw: st.DrawFn) -> list[TrialView]:
    made = []
    for number in range(1, draw(st.integers(1, 10)) + 1):
        step = draw(st.sampled_from([0, 5, 7, 20, 95, 100]))
        state = draw(STATES)
        made.append(
            trial(
                number,
                state,
                step=step,
                cell=draw(st.sampled_from([(4, 16), (8, 32), (64, 256)])),
                gpu_hours_per_step=draw(st.sampled_from([0.1, 1.0, 7.0])),
                resting=state in {TrialState.PLANNED, TrialState.PAUSED} and draw(st.booleans()),
            )
        )
    return made


def by_trial(found: list[Offer]) -> dict[int, list[Offer]]:
    grouped: dict[int, list[Offer]] = {}
    for offer in found:
        if offer.trial is not None:
            grouped.setdefault(offer.trial.trial, []).append(offer)
    return grouped


@settings(deadline=None, max_examples=150)
@given(trials(), st.sampled_from([0.0, 1.0, 30.0, 1e4]))
def test_offers_are_whole_segments_of_ready_trials_that_can_be_paid(each: list[TrialView], left: float) -> None:
    seen = view(each, left=left)
    grouped = by_trial(offers(seen, money_of(seen)))
    for number, found in grouped.items():
        one = seen.trials[number]
        assert one.ready
        ends = [offer.to_step for offer in found]
        assert ends == sorted(set(ends))
        for place, offer in enumerate(found):
            assert one.step < offer.to_step <= one.most_steps
            assert offer.to_step % one.segment_steps == 0 or offer.to_step == one.most_steps
            assert offer.price == one.price(offer.to_step)
            assert offer.scores >= 1
            assert offer.to_gpu_hours > offer.from_gpu_hours
            assert place == 0 or offer.price * MARGIN <= left
    begun = [one for one in each if one.ready and one.step > 0]
    for configuration in {one.configuration for one in begun}:
        of_it = [one for one in begun if one.configuration == configuration]
        offered = [number for number in grouped if seen.trials[number] in of_it]
        assert len(offered) == min(MOST_OF_A_CONFIGURATION, len(of_it))
        assert {seen.trials[number].step for number in offered} <= {
            one.step for one in sorted(of_it, key=lambda one: -one.step)[: len(offered)]
        }


def test_of_seeds_that_have_not_begun_one_is_offered() -> None:
    seeds = [trial(number, cell=(8, 32), seed=number) for number in range(1, 5)]
    begun = trial(9, TrialState.PAUSED, step=20, cell=(8, 32))
    seen = view([*seeds, begun, trial(10, cell=(8, 64))])
    assert set(by_trial(offers(seen, money_of(seen)))) == {1, 9, 10}


def test_a_segment_is_offered_in_several_lengths_up_to_the_end() -> None:
    seen = view([trial(1, TrialState.PAUSED, step=20)], left=200.0)
    found = by_trial(offers(seen, 220.0))[1]
    quantum = 220.0 / QUANTA
    assert found[0].to_step == 20 + 5 * -(-quantum // 5)
    assert len(found) >= 3
    assert found[-1].to_step == 100
    assert found[0].from_gpu_hours == 20.0
    assert found[-1].to_gpu_hours == 100.0
    assert found[-1].scores == pytest.approx(80)


def test_a_segment_is_no_shorter_than_the_plan_says() -> None:
    seen = view([trial(1, segment_steps=30)], left=10.0)
    assert [offer.to_step for offer in offers(seen, 10.0)] == [30]


def test_open_cells_are_offered_as_pilots_while_there_is_money() -> None:
    cell = OpenCell(8, 32, 5, 1.0, 0.5)
    pilots = offers(view([], left=1000.0, open_cells=[cell]), 1000.0)
    assert [offer.to_step for offer in pilots] == [5, 5 * MOST_PILOT]
    assert all(offer.trial is None and offer.cell is cell for offer in pilots)
    assert [offer.price for offer in pilots] == [5.5, 40.5]
    assert len(offers(view([], left=10.0, open_cells=[cell]), 1000.0)) == 1
    assert offers(view([], left=5.5 * MARGIN - 0.1, open_cells=[cell]), 1000.0) == []


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


def test_the_money_of_a_sweep_is_what_is_left_and_what_was_spent() -> None:
    assert money_of(view([trial(1, step=20), trial(2, step=5)], left=75.0)) == 100.0


def test_what_is_running_is_pending() -> None:
    running = trial(1, TrialState.RUNNING, step=20)
    found = pending(view([running, trial(2), trial(3, TrialState.PAUSED, step=10)]), 100.0)
    assert [(offer.trial, offer.to_step) for offer in found] == [(running, 25)]
    late = replace(running, step=98, scores=running.scores)
    assert [offer.to_step for offer in pending(view([late]), 1000.0)] == [100]


@pytest.mark.parametrize(("share", "goal"), [(0.1, 5), (5.0, 5), (5.1, 10), (42.0, 45), (1e4, 100)])
def test_a_first_pilot_is_of_whole_segments(share: float, goal: int) -> None:
    assert first_goal(trial(1), share) == goal


@pytest.mark.parametrize("start_up", [0.0, 3.0, 40.0])
def test_no_segment_is_shorter_than_the_start_up_before_it(start_up: float) -> None:
    one = trial(1, TrialState.PAUSED, step=5, gpu_hours_per_step=0.1, start_up_gpu_hours=start_up, most_steps=5000)
    found = offers(view([one], left=200.0), 200.0)
    assert found
    assert all((each.to_step - one.step) * one.gpu_hours_per_step >= start_up for each in found)
