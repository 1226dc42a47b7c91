from typing import Any

import numpy as np
import pytest

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.families.across_runs import draw_group_law, draw_model_sizes, draw_value_based
from planner.curves.families.draws import CannotTellError, LawDraws
from tests.planner.curves.family_samples import (
    EASY,
    MEDIUM,
    PAIRS,
    SIZES,
    group_curve,
    size_curve,
    size_scores,
    steps_needed,
)


def medians(draws: LawDraws) -> dict[str, float]:
    return {name: float(np.median(values)) for name, values in draws.parameters.items()}


# Model sizes


def test_a_larger_model_is_predicted_from_ten_early_points() -> None:
    early = {72e9: [size_curve(72e9, 0.01, points=10)]}
    draws = draw_model_sizes({size: [size_curve(size, 0.01)] for size in SIZES[1:-1:2]} | early)
    last = np.array([3e9 * 72e9])
    low, high = np.quantile(draws.series["72B"](last), (0.01, 0.99))
    assert low <= size_scores(72e9, last)[0] <= high
    assert high - low < 0.1


@pytest.mark.parametrize(
    ("curves", "kind", "message"),
    [
        ({7e9: size_curve(7e9, 0)}, CannotTellError, "at least 2"),
        ({7e9: size_curve(7e9, 0), -1.0: size_curve(3e9, 0)}, InputError, "above 0"),
        ({7e9: size_curve(7e9, 0), 3e9: Curve.of("percent", [1, 2, 3], [40, 45, 50])}, InputError, "percent"),
        ({7e9: size_curve(7e9, 0), 3e9: Curve.of("one", [1.0], [0.4])}, CannotTellError, "1 distinct x"),
        ({n: Curve.of("falls", [1, 2, 3], [0.5, 0.4, 0.3]) for n in (3e9, 7e9)}, CannotTellError, "fall with X"),
    ],
)
def test_sizes_that_cannot_be_fitted_are_refused(
    curves: dict[float, Curve], kind: type[InputError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        draw_model_sizes({size: [curve] for size, curve in curves.items()})


# The group size

GROUPS = (8, 16, 32, 64, 128, 256, 512)


def test_a_known_law_of_the_best_group_is_recovered_approximately() -> None:
    draws = draw_group_law({group: [group_curve(group, EASY, 0.01)] for group in GROUPS})
    assert not draws.doubts
    assert medians(draws)["c0"] == pytest.approx(EASY.midpoint, abs=0.12)
    computes = np.array([1e5, 5e5, 8e5, 3e6, 1e7])
    truth = np.log2([EASY(value) for value in computes])
    low, middle, high = np.quantile(np.log2(draws.series["n*"](computes)), (0.05, 0.5, 0.95), axis=0)
    smoothed = 0.25  # octaves that the running average of the best n lets the leap begin too early
    assert (low - smoothed <= truth).all()
    assert (truth <= high + smoothed).all()
    # Where n* leaps by five octaves in one decade, the middle depends on where exactly the leap is taken to be.
    level = [0, 3, 4]
    assert middle[level] == pytest.approx(truth[level], abs=0.3)


def test_one_group_that_is_always_the_best_cannot_tell() -> None:
    x = np.geomspace(1e5, 1e7, 40)
    curves = {
        group: [Curve.of(str(group), x, top * x / (x + 1e6) + np.random.default_rng(group).normal(0, 0.003, 40))]
        for group, top in ((8, 0.7), (64, 0.5))
    }
    assert draw_group_law(curves).doubts[0].startswith("the best n may be the same at every compute (P = 1.00")


def test_a_group_that_cannot_be_fitted_is_left_out_and_named() -> None:
    curves = {group: [group_curve(group, EASY, 0.003)] for group in GROUPS[::3]}
    curves[4] = [Curve.of("n=4", [1e5, 1e6, 1e7], [0.40, 0.40, 0.40])]
    assert draw_group_law(curves).notes[0].startswith("n = 4 left out: curve 'n=4' has 3 distinct x")
    with pytest.raises(CannotTellError, match="the best n needs 2"):
        draw_group_law({8: curves[8], 4: curves[4]})
    with pytest.raises(InputError, match="at least 1"):
        draw_group_law({0: curves[8]})


# Value-based RL


def test_the_law_of_the_medium_control_tasks_is_recovered() -> None:
    draws = draw_value_based(np.column_stack([PAIRS, steps_needed()]))
    assert medians(draws) == pytest.approx(MEDIUM, rel=1e-3)
    assert not draws.doubts
    assert np.median(draws.series["1M"](np.array([5.0]))) == pytest.approx(steps_needed()[12], rel=0.02)


@pytest.mark.parametrize(
    ("triples", "kind", "message"),
    [
        ([(1, 1, 10), (2, 2, 9)], CannotTellError, "2 rows with 2 different σ"),
        (np.column_stack([PAIRS[:5], np.arange(1, 6)]), CannotTellError, "1 different σ"),
        ([(1, 0, 10)] * 6, InputError, "positive number"),
    ],
)
def test_triples_that_cannot_be_fitted_are_refused(triples: Any, kind: type[InputError], message: str) -> None:
    with pytest.raises(kind, match=message):
        draw_value_based(np.asarray(triples, dtype=float))
