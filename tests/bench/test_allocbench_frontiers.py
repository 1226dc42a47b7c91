import math

import numpy as np
import pytest

from bench.allocating.frontiers import Frontier, OptimalGroup, OptimalGroupFit, fit_optimal_group, frontier
from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.families.sigmoid import SigmoidFit
from planner.group_law import OptimalGroupLaw
from tests.planner.curves.family_samples import EASY, curve_of, frontier_score, group_curve

GROUPS = (8, 16, 32, 64, 128, 256, 512)
HARD = OptimalGroupLaw(rise=3.97, steepness=50.0, midpoint=6.13, floor=3.04)


@pytest.mark.parametrize("noise", [0.0, 0.003])
@pytest.mark.parametrize("law", [EASY, HARD], ids=["easy", "hard"])
def test_a_known_law_of_the_optimal_group_is_recovered_approximately(law: OptimalGroupLaw, noise: float) -> None:
    found = frontier({group: group_curve(group, law, noise) for group in GROUPS})
    fitted = fit_optimal_group(found)
    assert found.score == pytest.approx(frontier_score(found.compute), abs=0.02)
    assert fitted.midpoint == pytest.approx(law.midpoint, abs=0.12)
    for compute in (1e5, 5e5, 8e5, 3e6, 1e7):
        assert math.log2(fitted(compute)) == pytest.approx(math.log2(law(compute)), abs=1.0)


def test_labels_that_follow_the_law_give_its_constants_back() -> None:
    compute = np.geomspace(1e4, 1e8, 200)
    labels = np.array([round(EASY(value)) for value in compute], dtype=np.int64)
    fit = OptimalGroup(smoothing=0.005).fit(Frontier(compute, frontier_score(compute), labels))
    assert fit.parameters == pytest.approx({"L": 5.67, "k": 8.84, "c0": 6.08, "b": 3.08}, rel=0.03)
    assert fit.predict([[1e5, 1e6]]) == pytest.approx(np.array([[EASY(1e5), EASY(1e6)]]), rel=0.05)


def test_dominated_points_do_not_touch_the_frontier() -> None:
    clean = {group: group_curve(group, EASY) for group in GROUPS}
    spoiled = dict(clean)
    run = clean[32]
    # An evaluation that is far below what the run had already reached.
    spoiled[32] = Curve.of("n=32", np.append(run.x, 5.1e6), np.append(run.y, 0.1))
    assert np.array_equal(frontier(spoiled).score, frontier(clean).score)


def test_runs_of_one_n_are_pooled_and_an_n_does_not_count_beyond_what_was_seen() -> None:
    early = SigmoidFit(0.3, 0.6, 2.0, 2e5, 0.0)
    late = SigmoidFit(0.3, 0.8, 2.0, 1e6, 0.0)
    runs = {
        8: [curve_of(early, np.geomspace(2e4, 1e6, 40)), curve_of(early, np.geomspace(3e4, 9e5, 40))],
        64: curve_of(late, np.geomspace(2e5, 1e7, 60)),
    }
    found = frontier(runs)
    assert set(found.group[found.compute < 2e5]) == {8}
    assert found.group[-1] == 64
    assert np.all(np.diff(found.group) >= 0)
    assert found.score[-1] == pytest.approx(float(late.predict(1e7)), abs=0.01)


def test_a_group_with_too_few_records_is_left_out_and_named() -> None:
    curves = {group: group_curve(group, EASY) for group in GROUPS}
    curves[4] = Curve.of("n=4", [1e5, 1e6, 1e7], [0.40, 0.40, 0.40])
    found = frontier(curves)
    assert 4 not in found.group
    assert found.notes == ("n = 4 left out: 1 record-breaking points, 4 needed",)


def test_a_frontier_that_cannot_be_drawn_or_has_no_change_is_refused() -> None:
    with pytest.raises(InputError, match="the frontier needs 2"):
        frontier({8: group_curve(8, EASY)})
    with pytest.raises(InputError, match="width above 0"):
        frontier({8: group_curve(8, EASY)}, bins=0)
    with pytest.raises(InputError, match="at least 1"):
        frontier({0: group_curve(8, EASY)})
    same = Frontier(np.geomspace(1, 100, 9), np.linspace(0, 1, 9), np.full(9, 16))
    with pytest.raises(InputError, match="n = 16 is on the frontier at every compute"):
        fit_optimal_group(same)


def test_no_group_is_the_best_at_compute_0() -> None:
    with pytest.raises(InputError, match="compute 0"):
        OptimalGroupFit(EASY, 0.0).predict([0.0, 1.0])
