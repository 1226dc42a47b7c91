import numpy as np
import pytest

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.gain_curve import CannotTellError, LawDraws
from planner.curves.laws import draw_group_law
from tests.planner.curves.family_samples import EASY, group_curve


def medians(draws: LawDraws) -> dict[str, float]:
    return {name: float(np.median(values)) for name, values in draws.parameters.items()}


GROUPS = (8, 16, 32, 64, 128, 256, 512)


def test_a_known_law_of_the_best_group_is_recovered_approximately() -> None:
    draws = draw_group_law({group: [group_curve(group, EASY, 0.01)] for group in GROUPS})
    assert not draws.doubts
    assert medians(draws)["c0"] == pytest.approx(EASY.midpoint, abs=0.12)
    computes = np.array([1e5, 5e5, 8e5, 3e6, 1e7])
    truth = np.log2([EASY(value) for value in computes])
    low, middle, high = np.quantile(np.log2(draws.values(computes)), (0.05, 0.5, 0.95), axis=0)
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
