import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.belief.pool import Pool
from planner.replay.play import highest_expected, highest_last_score, open_chooser
from planner.replay.recorded import Recorded
from planner.view import Configuration, ScorePoint, TrialState, TrialView, View
from tests.planner.replay.tables import grid, run

TENTHS = np.arange(0, 101, 10.0).tolist()


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (50, 0.5),  # 45 to 55: the point at 50 alone
        (55, 0.55),  # 49.5 to 60.5: those at 50 and 60
        (100, 0.95),  # 90 to 110, both ends included
        (14, 0.14),  # 12.6 to 15.4 holds none: between its neighbours
        (1000, 0.95),  # it ends before: its last tenth
    ],
)
def test_a_score_at_the_target_is_the_mean_around_it(target: float, expected: float) -> None:
    rising = run(hours=TENTHS, scores=[hours / 100 for hours in TENTHS])
    assert rising.score_near(target) == pytest.approx(expected)


def test_the_truth_is_the_mean_over_the_runs_of_a_configuration_not_over_their_points() -> None:
    dense = run("a", hours=np.linspace(0, 100, 401).tolist(), scores=0.2)
    sparse = run("b", seed=1, hours=[50, 100], scores=0.6)
    other = run("c", (16, 4), scores=0.3, axes=(("recipe", "x"),))
    truth = Recorded((dense, sparse, other)).truth(100)
    assert truth == pytest.approx({Configuration(8, 4): 0.4, Configuration(16, 4, (("recipe", "x"),)): 0.3})


def test_the_full_cost_is_that_of_one_run_of_each_configuration() -> None:
    runs = run("a"), run("b", seed=1), run("c", (16, 4), hours=[0, 40]), run("d", (16, 4), hours=[0, 20], seed=1)
    recorded = Recorded(runs)
    assert recorded.full_cost(50) == 50 + 30
    assert recorded.full_cost(1000) == 100 + 30
    assert recorded.length == 100


def test_configurations_are_ordered_and_numbers_of_an_axis_before_words() -> None:
    def of(n: int, *axes: tuple[str, str | float]) -> Configuration:
        return Configuration(n, 4, axes)

    expected = [of(8, ("rate", 0.5)), of(8, ("rate", 2.0)), of(8, ("rate", "none")), of(16), of(128)]
    runs = [run(str(number), (each[0], 4), axes=each.axes) for number, each in enumerate(reversed(expected))]
    assert Recorded(tuple(runs)).configurations == tuple(expected)


@given(seed=st.integers(0, 2**32 - 1))
def test_every_configuration_comes_once_before_any_comes_twice(seed: int) -> None:
    recorded = grid(cells=5, seeds=3, points=2)
    order = recorded.in_order(seed)
    assert Counter(map(id, order)) == Counter(map(id, recorded.runs))
    for first in (0, 5, 10):
        assert {each.configuration for each in order[first : first + 5]} == set(recorded.configurations)
    assert recorded.in_order(seed) == order
    assert len({tuple(map(id, recorded.in_order(other))) for other in range(seed, seed + 5)}) == 5


@pytest.mark.parametrize(
    ("hours", "scores", "says"),
    [
        ([], [], "has 0 GPU-hours and 0 scores"),
        ([1, 1], [0.1, 0.2], "does not grow"),
        ([-1, 1], [0.1, 0.2], "GPU-hours below 0"),
        ([0, 1], [0.1, np.nan], "no numbers"),
    ],
)
def test_what_is_no_curve_is_refused(hours: list[float], scores: list[float], says: str) -> None:
    with pytest.raises(InputError, match=re.escape(says)):
        run("bad", hours=hours, scores=scores)
    with pytest.raises(InputError, match="no runs are recorded"):
        Recorded(())


def trial(number: int, n: int, *scores: float, step: int = 100, state: TrialState = TrialState.PAUSED) -> TrialView:
    seen = tuple(ScorePoint(10 * place, float(place), score, 0.01) for place, score in enumerate(scores))
    return TrialView(number, f"t{number}", n, 4, 0, state, step, 100, 25, 100, 0.1, 0.0, step / 10, seen)


def view(*trials: TrialView) -> View:
    return View({each.trial: each for each in trials}, 10.0, 20.0, 1, 0)


def test_the_last_score_counts_however_far_a_trial_has_come() -> None:
    seen = view(trial(1, 8, 0.1, 0.5, 0.5, 0.5), trial(2, 16, 0.4, 0.4, 0.6), trial(3, 32, 0.9, step=49), trial(4, 64))
    assert highest_last_score(seen) == Configuration(32, 4)


def test_expected_scores_are_those_at_the_target() -> None:
    flat, rising = [0.1, 0.3, 0.38, *[0.4] * 7], [0.1 + 0.03 * place for place in range(10)]
    seen = view(trial(1, 8, *flat), trial(2, 16, *rising))
    assert highest_last_score(seen) == Configuration(8, 4)
    assert highest_expected(Pool())(seen) == Configuration(16, 4)
    failed = trial(1, 8, *[0.8] * 8, state=TrialState.FAILED)
    assert highest_expected(Pool())(view(failed, trial(2, 16, *[0.3] * 8))) == Configuration(16, 4)


@pytest.mark.parametrize("name", ["rlplan", "asha"])
def test_without_any_score_nothing_is_chosen(name: str) -> None:
    assert open_chooser(name, Pool())(view(trial(1, 8), trial(2, 16))) is None
