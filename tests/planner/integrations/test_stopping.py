import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.fit import fit_curves
from planner.integrations.stopper import Stopping
from tests.planner.integrations.crossing import STEPS, Run

GOOD, FAIR, BAD = Run(0.9, 5.0, 2.0, seed=1), Run(0.7, 5.0, 2.0, seed=2), Run(0.5, 5.0, 2.0, seed=3)


def told(stopping: Stopping, run: Run, name: str, steps: int) -> None:
    for step, score in run.scores():
        if step <= steps:
            stopping.add_score(name, step, score)


def three(stopping: Stopping, steps: int = 24) -> Stopping:
    for name, run in (("good", GOOD), ("fair", FAIR), ("bad", BAD)):
        told(stopping, run, name, steps)
    return stopping


def test_a_curve_is_carried_to_the_target_as_by_the_fit() -> None:
    stopping, curves = three(Stopping(STEPS, bounds=(0, 1))), []
    for run in (GOOD, FAIR, BAD):
        x, y = zip(*list(run.scores())[:24], strict=True)
        curves.append(Curve.of("", x, y, bounded=True))
    for outlook, fit in zip(stopping.outlooks().values(), fit_curves(curves, [[STEPS]] * 3), strict=True):
        forecast = fit.predictions[0]
        expected = (forecast.mean, forecast.low, forecast.high, forecast.expectation)
        assert outlook[:4] == pytest.approx(expected, abs=1e-6)


def test_without_bounds_the_others_show_what_a_flat_one_may_gain() -> None:
    alone, among = Stopping(60), Stopping(60)
    for step in range(1, 61):
        for number in range(3):
            among.add_score(number, step, 5 * step / (20 + step))
    for step, score in enumerate(np.random.default_rng(0).normal(0, 0.001, 15), start=1):
        for stopping in (alone, among):
            stopping.add_score("flat", step, score)
    assert alone.outlooks()["flat"].high < 0.1
    assert among.outlooks()["flat"].high > 1.0


@pytest.mark.parametrize("bounds", [(0.0, 1.0), None])
def test_the_hopeless_is_named_with_the_numbers_and_the_two_best_are_safe(bounds: tuple[float, float] | None) -> None:
    stopping = three(Stopping(STEPS, bounds=bounds))
    assert stopping.hopeless("good") is None
    assert stopping.hopeless("fair") is None
    why = stopping.hopeless("bad")
    assert why is not None
    assert why.reason.startswith("P(trial bad is best at 36) is ")
    assert "trial good is predicted 0.8" in why.reason
    assert why.figures["probability_best"] < why.figures["limit"] == 0.02
    assert why.figures["high"] < why.figures["leader_low"]
    assert stopping.outlooks()["bad"].median == pytest.approx(BAD.end, abs=0.05)


def test_without_bounds_nobody_is_judged_before_one_has_come_half_the_way() -> None:
    stopping = three(Stopping(STEPS), steps=17)
    assert stopping.hopeless("bad") is None
    assert three(Stopping(STEPS, bounds=(0, 1)), steps=17).hopeless("bad") is not None
    told(stopping, GOOD, "good", STEPS)
    assert stopping.hopeless("bad") is not None


@pytest.mark.parametrize(("steps", "kept"), [(2, True), (4, True), (24, False)])
def test_a_curve_that_is_not_identifiable_is_kept(steps: int, kept: bool) -> None:
    stopping = Stopping(STEPS, bounds=(0, 1), alpha=0.2)
    told(stopping, GOOD, "good", 34)
    told(stopping, FAIR, "fair", 34)
    told(stopping, BAD, "bad", steps)
    assert stopping.outlooks()["bad"].probability_best < 0.2
    assert (stopping.hopeless("bad") is None) is kept


def test_who_is_dropped_or_finished_is_not_judged_and_only_the_finished_competes() -> None:
    stopping = three(Stopping(STEPS, bounds=(0, 1)))
    assert stopping.hopeless("unknown") is None
    assert three(Stopping(STEPS, bounds=(0, 1)), steps=STEPS).hopeless("bad") is None  # who has come to the target
    stopping.finish("bad")
    assert stopping.hopeless("bad") is None
    assert set(stopping.outlooks()) == {"good", "fair", "bad"}
    stopping.drop("good")
    assert set(stopping.outlooks()) == {"fair", "bad"}
    stopping.reopen("bad")
    assert stopping.hopeless("bad") is None  # now of the two best
    stopping.reopen("good")
    assert stopping.hopeless("bad") is not None


def test_a_run_that_is_set_back_forgets_what_came_after() -> None:
    straight, back = (Stopping(STEPS, bounds=(0, 1)) for _ in range(2))
    told(straight, GOOD, "run", 20)
    told(back, GOOD, "run", 12)
    for step in range(13, 18):
        back.add_score("run", step, 0.0)
    for step, score in list(GOOD.scores())[12:20]:
        back.add_score("run", step, score)
    assert straight.outlooks() == back.outlooks()


def test_worse_than_the_bounds_is_as_bad_as_they_allow_and_better_is_refused() -> None:
    stopping = Stopping(10, mode="min", bounds=(0, 5))
    stopping.add_score("run", 1, 1e6)
    assert stopping.outlooks()["run"].median <= 5
    with pytest.raises(InputError, match="trial run scored -1, better than the bounds 0 to 5 allow"):
        stopping.add_score("run", 2, -1)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"target": 0}, "target 0: give the steps"),
        ({"mode": "up"}, "mode 'up': give 'max'"),
        ({"bounds": (1, 0)}, r"bounds \(1, 0\): give the metric's least"),
        ({"alpha": 0.5}, "alpha 0.5: it must lie above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(settings_: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Stopping(**{"target": 10, **settings_})
    with pytest.raises(InputError, match="trial a has a score at x = nan"):
        Stopping(10).add_score("a", math.nan, 0.5)


@settings(max_examples=25)
@given(
    scores=st.lists(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8), min_size=1, max_size=5),
    bounded=st.booleans(),
)
def test_somebody_is_always_kept_and_pickling_changes_nothing(scores: list[list[float]], bounded: bool) -> None:
    stopping = Stopping(9, bounds=(-1e3, 1e3) if bounded else None)
    for number, values in enumerate(scores):
        for step, value in enumerate(values):
            stopping.add_score(number, step + 1, value)
    judged = [stopping.hopeless(number) for number in range(len(scores))]
    assert sum(why is None for why in judged) >= min(2, len(scores))
    again: Stopping = pickle.loads(pickle.dumps(stopping))
    assert [again.hopeless(number) for number in range(len(scores))] == judged
    assert math.fsum(each.probability_best for each in stopping.outlooks().values()) == pytest.approx(1, abs=1e-4)
