import pytest

from planner.belief.pool import Pool
from planner.replay.play import highest_expected, highest_last_score, open_chooser
from planner.view import Configuration, ScorePoint, TrialState, TrialView, View


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
