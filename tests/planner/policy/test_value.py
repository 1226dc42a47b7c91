from dataclasses import replace

import numpy as np
import pytest

from planner.belief.draws import JointDraws, Runs
from planner.belief.points import KNOTS
from planner.belief.pool import joint_of
from planner.policy.grants import MARGIN, grant
from planner.policy.offers import Offer, money_of, offers
from planner.policy.value import SegmentValues
from planner.view import Configuration, TrialState
from tests.planner.belief.sweeps import smooth, sweep
from tests.planner.policy.views import trial, view

CELLS = ((4, 16), (8, 32), (16, 64), (32, 128))
CONFIGURATIONS = tuple(Configuration(*cell) for cell in CELLS)


class Normal(JointDraws):
    """Worlds whose scores are jointly normal and the same at every compute."""

    def at(self, x: float) -> np.ndarray:
        return self.departed

    def observed(self, configuration: np.ndarray, run: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self.departed[:, configuration, None] * np.ones(x.shape[1])


def normal(mean: np.ndarray, covariance: np.ndarray, noise: float, size: int = 20_000) -> Normal:
    draws = np.random.default_rng(0).multivariate_normal(mean, covariance, size)
    draws -= draws.mean(axis=0)
    draws = draws @ np.linalg.inv(np.linalg.cholesky(draws.T @ draws / size)).T
    known, nothing = len(mean), np.zeros(0)
    runs = Runs((), np.zeros(0, dtype=np.intp), nothing, nothing)
    scores = mean + draws @ np.linalg.cholesky(covariance).T
    start, common, local = np.zeros(size), np.zeros((size, KNOTS)), np.zeros((size, known, 3))
    own = start, common, start
    return Normal(CONFIGURATIONS[:known], 1.0, local, *own, nothing, runs, noise, scores, start, *[scores] * 3)


def segment(place: int, scores: float = 1.0) -> Offer:
    return Offer(CONFIGURATIONS[place], None, None, None, 0.0, 1.0, 10, scores, 1.0)


def gains_of(worlds: JointDraws, *offered: Offer) -> np.ndarray:
    return SegmentValues(worlds, offered).gains(range(len(offered)))


MEAN = np.array([0.5, 0.52, 0.45])
COVARIANCE = np.array([[0.01, 0.006, 0.0], [0.006, 0.008, 0.002], [0.0, 0.002, 0.02]])
NOISE = 0.004


def brute_force(
    place: int, mean: np.ndarray = MEAN, covariance: np.ndarray = COVARIANCE, size: int = 400_000
) -> tuple[float, float]:
    """Return E[max of the means after two scores, each with twice the noise], less the best mean, and its error."""
    rng = np.random.default_rng(1)
    told = covariance[place, place] + NOISE  # the mean of two scores of variance 2·noise
    move = covariance[place] / np.sqrt(told)
    best = (mean + rng.normal(size=(size, 1)) * move).max(axis=1)
    return float(best.mean() - mean.max()), float(best.std() / np.sqrt(size))


@pytest.mark.parametrize("place", range(3))
def test_the_gain_is_that_of_a_brute_force_simulation(place: int) -> None:
    gain = float(gains_of(normal(MEAN, COVARIANCE, NOISE), segment(place))[0])
    expected, error = brute_force(place)
    assert gain == pytest.approx(expected, abs=4 * error + 0.04 * expected)


@pytest.mark.parametrize(("first", "then"), [(0, 0), (1, 2), (2, 2), (2, 0)])
def test_after_an_expected_segment_the_gain_is_that_of_what_it_leaves_open(first: int, then: int) -> None:
    even = np.full(3, 0.5)  # with equal means no gain is one of rare outcomes only
    value = SegmentValues(normal(even, COVARIANCE, NOISE), [segment(first), segment(then)])
    value.expect(0)
    told = COVARIANCE[first, first] + NOISE
    left = COVARIANCE - np.outer(COVARIANCE[first], COVARIANCE[first]) / told
    expected, error = brute_force(then, even, left)
    assert float(value.gains([1])[0]) == pytest.approx(expected, abs=4 * error + 0.08 * expected)


def seen_sweep() -> tuple[list[Offer], JointDraws]:
    seen = sweep(smooth(4, CELLS), {CELLS[0]: 10, CELLS[1]: 30, CELLS[2]: 20})
    return offers(seen, money_of(seen)), joint_of(seen, 400)


def test_gains_of_a_sweep_are_never_negative_and_never_above_perfect_knowledge() -> None:
    offered, worlds = seen_sweep()
    scores = worlds.at(1.0)
    perfect = scores.max(axis=1).mean() - scores.mean(axis=0).max()
    gains = gains_of(worlds, *offered)
    assert (gains >= 0).all()
    assert gains.max() > 0
    assert (gains <= 1.2 * perfect + 1e-3).all()


@pytest.mark.parametrize("times", [1, 30, 300])  # of 400 draws: the last has more columns than that
def test_what_is_under_way_counts_as_what_is_expected_one_after_the_other(times: int) -> None:
    offered, worlds = seen_sweep()
    some = [offered[number % 3] for number in range(times)]
    every = range(len(offered))
    value = SegmentValues(worlds, offered)
    for number in range(times):
        value.expect(number % 3)
    together = SegmentValues(worlds, offered, some).gains(every)
    assert together == pytest.approx(value.gains(every), rel=1e-6, abs=1e-9)


def test_a_collapsed_run_gains_nothing() -> None:
    seen = sweep(smooth(4, CELLS), {CELLS[0]: 10, CELLS[2]: 20})
    one = seen.trials[1]
    fallen = tuple(each._replace(score=0.01 if each.step > 4 else 0.4) for each in one.scores)
    seen = view([replace(one, scores=fallen), *list(seen.trials.values())[1:]])
    offered = [each for each in offers(seen, money_of(seen)) if each.trial is not None and each.trial.trial == 1]
    assert offered
    assert offered[0].trial is not None
    assert offered[0].trial.state is TrialState.PAUSED
    assert gains_of(joint_of(seen, 200), *offered) == pytest.approx(0.0, abs=1e-4)


# What is offered


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


# A segment is paid for before it starts, with a margin


@pytest.mark.parametrize(
    ("wanted", "left", "least", "to_step"),
    [
        (30, 100.0, 0.0, 30),
        (1010, 13.0, 0.0, 105),  # a part, when the whole is too dear: 13 / 1.3 less the start-up
        (11, 100.0, 50.0, 11),  # a small rest, when it is all that is wanted
        (5000, 1e9, 0.0, 2000),  # no trial goes beyond its final run
        (1010, 0.0, 0.0, None),
        (1010, 0.7, 0.0, None),  # not one update
        (1010, 1.1, 0.0, None),  # less than the start-up
        (1010, 13.0, 9.6, None),  # less than is worth it
        (10, 1e9, 0.0, None),
    ],
)
def test_as_much_is_granted_with_a_margin_as_is_paid_for_and_worth_its_start_up(
    wanted: int, left: float, least: float, to_step: int | None
) -> None:
    paid = grant(
        trial(1, step=10, gpu_hours_per_step=0.1, start_up_gpu_hours=0.5, most_steps=2000), wanted, left, least
    )
    assert (paid.to_step if paid else None) == to_step
    if paid:
        assert paid.gpu_hours == pytest.approx(MARGIN * (0.5 + (paid.to_step - 10) * 0.1))
        assert paid.gpu_hours <= left
