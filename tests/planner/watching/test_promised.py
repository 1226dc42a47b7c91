"""What was promised along the way, and what is believed of the end as the run goes on."""

import numpy as np
import pytest

from planner.pooling.pool import Pool
from planner.recommending.promise import PARTS, Asked, outlook, promise
from planner.trials import TrialState
from planner.view import View
from planner.watching.promised import Foretold, promised_at
from tests.planner.sweeping.views import trial

CELL = (16, 32)
PILOTS = {number: trial(number, TrialState.PAUSED, step=20, cell=(16, B)) for number, B in enumerate((16, 32, 64))}
VIEW = View(PILOTS, gpu_hours_left=0.0, target_gpu_hours=100.0, free_workers=0, seed=0)


def test_between_two_parts_the_promise_is_between_theirs() -> None:
    band = [(0.5, 0.4, 0.3, 0.5), (1.0, 0.6, 0.5, 0.7)]
    assert promised_at(band, 0.75) == Foretold(*(pytest.approx(each) for each in (0.5, 0.4, 0.6)))
    assert promised_at(band, 0.1) == Foretold(0.4, 0.3, 0.5)
    assert promised_at(band, 1.2) == Foretold(0.6, 0.5, 0.7)


def test_the_promise_ends_at_the_end_and_rises_with_a_rising_curve() -> None:
    run = next(each for each in PILOTS.values() if each.cell == CELL)
    made = promise(Pool().worlds(VIEW), run.configuration, 100.0, seed_sd=0.01)
    shares, scores, lows, highs = np.array(made.band).T
    assert (len(shares), shares[-1]) == (PARTS, 1.0)
    assert (scores[-1], lows[-1], highs[-1]) == (made.end.score, made.end.low, made.end.high)
    assert scores[-1] > scores[0]
    assert (lows <= scores).all()
    assert (scores <= highs).all()


@pytest.mark.parametrize(("asymptote", "below"), [(0.7, (0.0, 0.5)), (0.45, (0.9, 1.0))])
def test_a_run_that_stays_low_makes_the_shortfall_certain(asymptote: float, below: tuple[float, float]) -> None:
    run = trial(9, TrialState.PAUSED, step=80, cell=CELL, asymptote=asymptote)
    seen = outlook(VIEW, Asked(run, 100.0, promised=0.66, left_gpu_hours=20.0), Pool(), draws=500)
    assert below[0] <= seen.probability_below <= below[1]
    assert seen.end.low <= run.scores[-1].score + 0.05
    assert seen.end.low < seen.end.score < seen.end.high


def test_another_allocation_is_worth_switching_to_where_the_run_ends_clearly_below_what_is_left_for_it() -> None:
    low = trial(9, TrialState.PAUSED, step=40, cell=CELL, asymptote=0.35)
    rich = outlook(VIEW, Asked(low, 100.0, promised=0.66, left_gpu_hours=60.0), Pool(), draws=500)
    assert rich.rival is not None
    assert rich.rival.is_worth_it
    assert rich.rival.configuration != low.configuration
    poor = outlook(VIEW, Asked(low, 100.0, promised=0.66, left_gpu_hours=0.5), Pool(), draws=500)
    assert poor.rival is None  # no update is paid for
    good = trial(9, TrialState.PAUSED, step=80, cell=CELL, asymptote=0.7)
    late = outlook(VIEW, Asked(good, 100.0, promised=0.66, left_gpu_hours=20.0), Pool(), draws=500)
    assert late.rival is not None
    assert not late.rival.is_worth_it
