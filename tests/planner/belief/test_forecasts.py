"""What was promised along the way, and what is believed of the end as the run goes on."""

from dataclasses import replace

import numpy as np
import pytest

from planner.belief.forecasts import PredictedScore, promised_at, remaining_gain_alone
from planner.belief.pool import Pool
from planner.curves.curve import Curve
from planner.recommend.promise import PARTS, ForecastQuery, outlook, promise, score_share
from planner.view import ScorePoint, TrialState, View
from tests.planner.policy.views import trial


def sigmoid(end: float, points: int, middle: float, noise: float = 0.004) -> Curve:
    x = np.linspace(0, end, points)
    y = 0.3 + 0.5 / (1 + (middle / np.maximum(x, 1e-9)) ** 2)
    return Curve.of("run", x, y + np.random.default_rng(3).normal(0, noise, points), bounded=True)


def test_a_curve_that_is_saturated_has_nothing_left_and_one_that_rises_has() -> None:
    saturated, rising = remaining_gain_alone(sigmoid(80, 40, 5), 100), remaining_gain_alone(sigmoid(30, 20, 30), 100)

    assert saturated is not None
    assert rising is not None
    assert saturated.won
    assert saturated.share == pytest.approx(0.2)
    assert not rising.won
    assert rising.expected > 0.1


@pytest.mark.parametrize(
    "curve",
    [
        sigmoid(20, 20, 5),  # too early
        Curve.of("flat", np.arange(1.0, 60), np.full(59, 0.4) + 0.01 * np.resize([1, -1], 59)),  # it may rise late
        Curve.of("reward", np.arange(1.0, 60), 3 * np.arange(1.0, 60)),  # another scale
    ],
)
def test_what_a_curve_cannot_tell_is_not_said(curve: Curve) -> None:
    assert remaining_gain_alone(curve, 100) is None


CELL = (16, 32)
PILOTS = {number: trial(number, TrialState.PAUSED, step=20, cell=(16, B)) for number, B in enumerate((16, 32, 64))}
VIEW = View(PILOTS, gpu_hours_left=0.0, target_gpu_hours=100.0, free_workers=0, seed=0)


def test_between_two_parts_the_promise_is_between_theirs() -> None:
    band = [(0.5, 0.4, 0.3, 0.5), (1.0, 0.6, 0.5, 0.7)]
    assert promised_at(band, 0.75) == PredictedScore(*(pytest.approx(each) for each in (0.5, 0.4, 0.6)))
    assert promised_at(band, 0.1) == PredictedScore(0.4, 0.3, 0.5)
    assert promised_at(band, 1.2) == PredictedScore(0.6, 0.5, 0.7)


def test_a_run_that_goes_on_is_promised_by_its_own_curve() -> None:
    own = trial(7, TrialState.PAUSED, step=60, cell=CELL, asymptote=0.45)
    known = replace(VIEW, trials={**PILOTS, 7: own})
    worlds = Pool().joint_draws(known)
    of_the_cell = promise(worlds, own.configuration, 100.0, seed_sd=0.01)
    shares, scores, lows, highs = np.array(of_the_cell.band).T
    assert (len(shares), shares[-1], scores[-1], lows[-1]) == (PARTS, 1.0, of_the_cell.end.score, of_the_cell.end.low)
    assert ((lows <= scores) & (scores <= highs)).all()
    of_this_run = promise(worlds, own.configuration, 100.0, seed_sd=0.01, going_on=7)
    reached = own.scores[-1].score
    assert abs(of_this_run.end.score - reached) < abs(of_the_cell.end.score - reached)
    assert of_this_run.end.high - of_this_run.end.low < of_the_cell.end.high - of_the_cell.end.low


def test_a_new_run_is_not_promised_the_luck_of_its_pilot() -> None:
    lucky = trial(7, TrialState.PAUSED, step=60, cell=CELL, asymptote=0.85)
    others = {k: trial(k, TrialState.PAUSED, step=60, cell=(n, 32)) for k, n in enumerate((4, 8, 32, 64))}
    worlds = Pool().joint_draws(replace(VIEW, trials={**others, 7: lucky}))
    anew, going_on = (promise(worlds, lucky.configuration, 100.0, 0.01, going_on=run).end for run in (None, 7))
    assert others[0].scores[-1].score < anew.score < going_on.score - 0.01
    assert anew.high - anew.low > going_on.high - going_on.low


def test_the_error_of_one_validation_is_in_the_promise() -> None:
    level = trial(
        7, step=1, seen=[ScorePoint(0, 0.0, 0.5, 0.05), ScorePoint(1, 1.0, 0.5, 0.05), ScorePoint(2, 2.0, 0.5, None)]
    )
    assert score_share([level]) == pytest.approx(0.05**2 / 0.25)
    worlds, run = Pool().joint_draws(VIEW), PILOTS[1]
    exact, noisy = (promise(worlds, run.configuration, 100.0, 0.01, each) for each in (0.0, 0.02))
    assert noisy.end.score == exact.end.score
    assert noisy.end.low < exact.end.low
    assert noisy.end.high > exact.end.high
    assert score_share([]) == 0


@pytest.mark.parametrize(("asymptote", "below"), [(0.7, (0.0, 0.5)), (0.45, (0.9, 1.0))])
def test_a_run_that_stays_low_makes_the_shortfall_certain(asymptote: float, below: tuple[float, float]) -> None:
    run = trial(9, TrialState.PAUSED, step=80, cell=CELL, asymptote=asymptote)
    seen = outlook(VIEW, ForecastQuery(run, 100.0, promised=0.66, left_gpu_hours=20.0), Pool(), draws=500)
    assert below[0] <= seen.probability_below <= below[1]
    assert seen.end.low <= run.scores[-1].score + 0.05
    assert seen.end.low < seen.end.score < seen.end.high


def test_another_allocation_is_worth_switching_to_where_the_run_ends_clearly_below_what_is_left_for_it() -> None:
    low = trial(9, TrialState.PAUSED, step=40, cell=CELL, asymptote=0.35)
    rich = outlook(VIEW, ForecastQuery(low, 100.0, promised=0.66, left_gpu_hours=60.0), Pool(), draws=500)
    assert rich.rival is not None
    assert rich.rival.is_worth_it
    assert rich.rival.configuration != low.configuration
    poor = outlook(VIEW, ForecastQuery(low, 100.0, promised=0.66, left_gpu_hours=0.5), Pool(), draws=500)
    assert poor.rival is None  # no update is paid for
    good = trial(9, TrialState.PAUSED, step=80, cell=CELL, asymptote=0.7)
    late = outlook(VIEW, ForecastQuery(good, 100.0, promised=0.66, left_gpu_hours=20.0), Pool(), draws=500)
    assert late.rival is not None
    assert not late.rival.is_worth_it
