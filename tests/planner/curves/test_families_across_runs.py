import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.families.model_size import ModelSizeLaw, fit_sizes
from planner.curves.families.optimal_group import Frontier, OptimalGroup, fit_optimal_group, frontier
from planner.curves.families.sigmoid import SigmoidFit
from planner.curves.families.value_based import ValueBasedFit, ValueBasedLaw, cheapest
from planner.proposals.published import OptimalGroupLaw
from tests.planner.curves.family_samples import EASY, PUBLISHED_SIZES, SIZES, curve_of

# Model sizes


def size_curve(size: float, noise: float) -> Curve:
    # 105 evaluations; compute 6·N·tokens; noise of 0.01 in log10 L is that of 500 problems at three repeats.
    x = np.geomspace(3e7 * size, 3e9 * size, 105)
    factors = 10 ** np.random.default_rng(int(size / 1e8)).normal(0, noise, x.size)
    return Curve.of(f"{size:g}", x, np.maximum(0, 1 - (1 - PUBLISHED_SIZES.scores(size, x)) * factors))


@pytest.mark.parametrize(("noise", "tolerance"), [(0.0, 1e-4), (0.01, 0.05)])
def test_the_published_law_across_sizes_is_recovered(noise: float, tolerance: float) -> None:
    fit = fit_sizes({size: size_curve(size, noise) for size in SIZES})
    assert fit.parameters["K_max"] == pytest.approx(0.13304, rel=tolerance)
    assert fit.parameters["N_0"] == pytest.approx(13.78e9, rel=3 * tolerance)
    # E is log10 L at X = 1, some 17 decades from the data: the slope's error is seen in it magnified.
    assert fit.intercepts == pytest.approx(dict(PUBLISHED_SIZES.intercepts), abs=2 * tolerance)


@pytest.mark.parametrize(("noise", "tolerance"), [(0.0, 1e-6), (0.01, 0.02)])
def test_a_larger_model_is_predicted_from_ten_early_points(noise: float, tolerance: float) -> None:
    small = fit_sizes({size: size_curve(size, noise) for size in SIZES[:-1]})
    run = size_curve(72e9, noise)
    law = small.with_size(72e9, Curve.of("early", run.x[:10], run.y[:10]))
    assert law.scores(72e9, run.x[-1:]) == pytest.approx(PUBLISHED_SIZES.scores(72e9, run.x[-1:]), abs=tolerance)
    assert law.predict([(72e9, run.x[-1]), (7e9, 1e19)]) == pytest.approx(
        PUBLISHED_SIZES.predict([(72e9, run.x[-1]), (7e9, 1e19)]), abs=tolerance
    )


def test_the_residual_of_the_law_across_sizes_is_that_of_log_loss() -> None:
    curves = {size: size_curve(size, 0.01) for size in SIZES[2:]}
    fit = fit_sizes(curves)
    residuals = [np.log10((1 - fit.scores(size, curve.x)) / (1 - curve.y)) for size, curve in curves.items()]
    assert fit.rss == pytest.approx(float((np.concatenate(residuals) ** 2).sum()), rel=1e-6)


@pytest.mark.parametrize(
    ("curves", "message"),
    [
        ({7e9: size_curve(7e9, 0)}, "at least 2"),
        ({7e9: size_curve(7e9, 0), -1.0: size_curve(3e9, 0)}, "above 0"),
        ({7e9: size_curve(7e9, 0), 3e9: Curve.of("percent", [1, 2, 3], [40, 45, 50])}, "percent"),
        ({7e9: size_curve(7e9, 0), 3e9: Curve.of("one", [1.0], [0.4])}, "1 distinct x"),
        ({n: Curve.of("falls", [1, 2, 3], [0.5, 0.4, 0.3]) for n in (3e9, 7e9)}, "fall with X"),
    ],
)
def test_sizes_that_cannot_be_fitted_are_refused(curves: dict[float, Curve], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ModelSizeLaw().fit(curves)


def test_a_size_without_an_intercept_is_not_predicted() -> None:
    with pytest.raises(InputError, match="add it with with_size"):
        PUBLISHED_SIZES.predict([(100e9, 1e20)])
    with pytest.raises(InputError, match="pairs"):
        PUBLISHED_SIZES.predict([1e20])
    with pytest.raises(InputError, match="x above 0"):
        PUBLISHED_SIZES.with_size(1e11, Curve.of("none", [0.0], [0.4]))


# The optimal group

GROUPS = (8, 16, 32, 64, 128, 256, 512)
HARD = OptimalGroupLaw(rise=3.97, steepness=50.0, midpoint=6.13, floor=3.04)


def frontier_score(compute: np.ndarray) -> np.ndarray:
    return 0.45 + 0.3 / (1 + (1.06e6 / compute) ** 0.75)


def group_curve(group: int, law: OptimalGroupLaw, noise: float = 0.0) -> Curve:
    """A run whose score falls short of the frontier with its distance from n* in octaves."""
    compute = np.geomspace(1e5, 1e7, 80)
    octaves = math.log2(group) - np.log2([law(value) for value in compute])
    random = np.random.default_rng(group)
    return Curve.of(f"n={group}", compute, frontier_score(compute) - 0.004 * octaves**2 + random.normal(0, noise, 80))


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


# Value-based RL

MEDIUM = ValueBasedFit(D_min=371_900.0, a=1.261, alpha=1.010, b=633e3, beta=0.890, rss=0.0)
PAIRS = np.array([(updates, size) for updates in (1, 2, 5, 10, 15) for size in (1e5, 5e5, 1e6, 5e6, 2e7)])


@pytest.mark.parametrize(("noise", "tolerance"), [(0.0, 1e-4), (0.01, 0.1)])
def test_the_law_of_the_medium_control_tasks_is_recovered(noise: float, tolerance: float) -> None:
    noisy = MEDIUM.predict(PAIRS) * np.exp(np.random.default_rng(3).normal(0, noise, len(PAIRS)))
    fit = ValueBasedLaw().fit(np.column_stack([PAIRS, noisy]))
    assert fit.parameters == pytest.approx(MEDIUM.parameters, rel=tolerance)
    assert fit.rss == pytest.approx(float(((fit.predict(PAIRS) / noisy - 1) ** 2).sum()), abs=1e-12)


@given(
    alpha=st.floats(0.3, 2),
    beta=st.floats(0.3, 2),
    batch=st.floats(16, 4096),
    log_price=st.floats(6, 14),
    step=st.tuples(st.floats(-2, 2), st.floats(-2, 2)),
)
@settings(max_examples=60, deadline=None)
def test_no_other_allocation_is_cheaper(
    alpha: float, beta: float, batch: float, log_price: float, step: tuple[float, float]
) -> None:
    law = ValueBasedFit(371_900.0, 1.261, alpha, 633e3, beta, 0.0)
    best = cheapest(law, batch_size=batch, data_price=10**log_price)
    updates, size = best.updates_per_step * math.exp(step[0]), best.parameters * math.exp(step[1])
    data = float(law.predict((updates, size)))
    assert data * (updates * batch * size + 10**log_price) >= best.budget * (1 - 1e-9)
    assert best.budget == pytest.approx(best.compute + 10**log_price * best.data)
    assert best.compute == pytest.approx(best.data * best.updates_per_step * batch * best.parameters)


def test_dearer_data_buys_more_updates_and_parameters() -> None:
    cheap, dear = (cheapest(MEDIUM, batch_size=256, data_price=price) for price in (1e10, 1e12))
    assert dear.updates_per_step > cheap.updates_per_step
    assert dear.parameters > cheap.parameters
    assert dear.data < cheap.data


@pytest.mark.parametrize(
    ("triples", "message"),
    [
        (np.ones((6, 3)), "1 different σ"),
        (np.ones((6, 2)), r"shape \(6, 2\)"),
        (5.0, r"shape \(\)"),
        ([(1, 1, math.nan)] * 5, "positive number"),
        ([(1, 0, 10)] * 5, "positive number"),
    ],
)
def test_triples_that_cannot_be_fitted_are_refused(triples: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ValueBasedLaw().fit(triples)


def test_an_allocation_without_a_price_of_data_or_without_a_trade_off_is_refused() -> None:
    with pytest.raises(InputError, match="price of data"):
        cheapest(MEDIUM, batch_size=256, data_price=0)
    with pytest.raises(InputError, match="save no data"):
        cheapest(ValueBasedFit(1e5, 0.0, 1.0, 6e5, 1.0, 0.0), batch_size=256, data_price=1e11)
