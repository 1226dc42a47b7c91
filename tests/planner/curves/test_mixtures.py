import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

from planner.curves.mixtures import Mixtures

UNBOUNDED = (-np.inf, np.inf)


@st.composite
def rows(draw, bounds=(UNBOUNDED, (0.0, 1.0), (0.0, np.inf), (-np.inf, 1.0))):
    """One mixture: weights, means, sds and bounds."""
    size = draw(st.integers(1, 5))
    weight = np.array(draw(st.lists(st.floats(0.01, 1), min_size=size, max_size=size)))
    mean = np.array(draw(st.lists(st.floats(-1, 2), min_size=size, max_size=size)))
    sd = np.array(draw(st.lists(st.floats(0.01, 1), min_size=size, max_size=size)))
    return weight / weight.sum(), mean, sd, draw(st.sampled_from(bounds))


def mixture(*given_rows) -> Mixtures:
    """One `Mixtures` of rows that have as many components each."""
    weight, mean, sd = (np.array([row[part] for row in given_rows]) for part in range(3))
    low, high = (np.array([row[3][end] for row in given_rows]) for end in (0, 1))
    return Mixtures(weight, mean, sd, low, high)


def scipy_cdf(row, value: float) -> float:
    weight, mean, sd, _ = row
    return float(weight @ stats.norm.cdf(value, mean, sd))


def span(row) -> tuple[float, float]:
    _, mean, sd, (low, high) = row
    return max(low, float((mean - 12 * sd).min())), min(high, float((mean + 12 * sd).max()))


BIMODAL = (np.array([0.3, 0.7]), np.array([0.1, 0.8]), np.array([0.02, 0.3]), UNBOUNDED)
CLIPPED = (*BIMODAL[:3], (0.0, 1.0))


@given(rows(), st.floats(-3, 4))
def test_cdf_is_that_of_the_normals_within_the_bounds(row, value):
    low, high = row[3]
    expected = 0.0 if value < low else 1.0 if value >= high else scipy_cdf(row, value)
    assert mixture(row).cdf(np.array([value]))[0] == pytest.approx(expected, abs=1e-12)


@given(rows(), st.floats(0.001, 0.999))
def test_quantile_is_where_the_cdf_reaches_the_level(row, level):
    low, high = row[3]
    of_components = stats.norm.ppf(level, row[1], row[2])
    below, above = float(of_components.min()), float(of_components.max())
    exact = optimize.brentq(lambda value: scipy_cdf(row, value) - level, below - 1e-9, above + 1e-9)
    # Between a narrow component and a far one the search does no better than to halve the distance at every step.
    assert mixture(row).quantile(level)[0] == pytest.approx(
        np.clip(exact, low, high), abs=(above - below) / 2**9 + 1e-9
    )


@given(st.floats(0.001, 0.999), st.floats(-1, 1), st.floats(0.2, 1))
def test_the_quantile_of_overlapping_components_is_exact(level, shift, sd):
    row = np.array([0.2, 0.5, 0.3]), np.array([0.0, shift / 3, shift / 2]), np.array([sd, 1.0, 0.5]), UNBOUNDED
    assert scipy_cdf(row, float(mixture(row).quantile(level)[0])) == pytest.approx(level, abs=1e-8)


@given(rows(), st.lists(st.floats(0.001, 0.999), min_size=2, max_size=2, unique=True))
def test_quantiles_ascend_with_the_level_and_keep_within_the_bounds(row, levels):
    first, second = (float(mixture(row).quantile(level)[0]) for level in sorted(levels))
    assert row[3][0] <= first <= second <= row[3][1]


@given(rows())
def test_average_counts_what_lies_beyond_a_bound_at_the_bound(row):
    # E[clip(X)] = b + ∫ (1 − F) over [b, t], as F is 0 below b and 1 from t on.
    bottom, top = span(row)
    if top <= bottom:
        expected = float(np.clip(row[1][0], *row[3]))
    else:
        grid = np.linspace(bottom, top, 20_001)
        survival = 1 - (row[0] * stats.norm.cdf((grid[:, None] - row[1]) / row[2])).sum(axis=1)
        expected = bottom + float(integrate.simpson(survival, x=grid))
    assert mixture(row).average()[0] == pytest.approx(expected, abs=1e-5)


def test_mixtures_of_a_batch_do_not_touch_each_other():
    both = mixture(BIMODAL, CLIPPED)
    for index, row in enumerate((BIMODAL, CLIPPED)):
        alone = mixture(row)
        assert both.quantile(0.9)[index] == alone.quantile(0.9)[0]
        assert both.average()[index] == alone.average()[0]
        assert both.cdf(np.array([0.3, 0.3]))[index] == alone.cdf(np.array([0.3]))[0]


def test_a_spike_beside_a_wide_component_is_found():
    spike = mixture((np.array([0.98, 0.02]), np.array([0.4, 0.4]), np.array([1e-6, 0.5]), (0.0, 1.0)))
    assert spike.quantile(0.05)[0] == pytest.approx(0.4, abs=1e-3)
    assert spike.quantile(0.5)[0] == pytest.approx(0.4, abs=1e-3)
    assert spike.quantile(0.95)[0] == pytest.approx(0.4, abs=1e-3)


def spread_out(count: int, seed: int) -> tuple[np.ndarray, ...]:
    """Two mixtures of many components, on a course as a grid's are; a few carry much of the weight."""
    rng = np.random.default_rng(seed)
    weight = rng.random((2, count)) ** 4
    mean = np.sin(np.arange(count) / 40) + 0.05 * rng.normal(size=(2, count))
    bounds = np.full(2, -np.inf), np.full(2, np.inf)
    return weight / weight.sum(axis=1, keepdims=True), mean, rng.uniform(0.05, 0.2, (2, count)), *bounds


@pytest.mark.parametrize("count", [100, 1000, 1448])
def test_condensing_keeps_mean_and_variance_and_nearly_every_quantile(count):
    everything = Mixtures(*spread_out(count, 5))
    condensed = Mixtures.condensed(*spread_out(count, 5), keep=32)
    assert condensed.weight.shape[1] < count
    np.testing.assert_allclose(condensed.weight.sum(axis=1), 1)
    np.testing.assert_allclose(condensed.average(), everything.average(), atol=1e-9)
    second = [(each.weight * (each.sd**2 + each.mean**2)).sum(axis=1) for each in (condensed, everything)]
    np.testing.assert_allclose(*second, rtol=1e-9)
    for level in (0.01, 0.05, 0.5, 0.95, 0.99):
        np.testing.assert_allclose(condensed.quantile(level), everything.quantile(level), atol=0.06)


def test_condensing_leaves_the_heaviest_components_as_they_are():
    weight, mean, sd, low, high = spread_out(1000, 6)
    condensed = Mixtures.condensed(weight, mean, sd, low, high, keep=10)
    for row in range(2):
        for component in np.argsort(weight[row])[-10:]:
            found = np.flatnonzero(condensed.mean[row] == mean[row, component])
            assert condensed.weight[row, found] == pytest.approx(weight[row, component])
            assert condensed.sd[row, found] == sd[row, component]


def test_condensing_components_without_weight_changes_nothing():
    weight, mean, sd, low, high = spread_out(500, 7)
    weight[:, 5:] = 0
    weight /= weight.sum(axis=1, keepdims=True)
    few = Mixtures(weight[:, :5], mean[:, :5], sd[:, :5], low, high)
    condensed = Mixtures.condensed(weight, mean, sd, low, high, keep=16)
    for level in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(condensed.quantile(level), few.quantile(level), atol=1e-9)


def test_condensing_fewer_than_are_kept_keeps_all_and_makes_their_weights_sum_to_one():
    everything = Mixtures.condensed(
        np.array([[1.0, 3.0]]), np.zeros((1, 2)), np.ones((1, 2)), np.array([0.0]), np.array([1.0]), keep=9
    )
    np.testing.assert_allclose(everything.weight, [[0.25, 0.75]])


def test_components_that_all_underflow_count_alike():
    low, high = np.array([-np.inf]), np.array([np.inf])
    lost = Mixtures.condensed(np.zeros((1, 3)), np.array([[1.0, 2.0, 3.0]]), np.ones((1, 3)), low, high, keep=9)
    np.testing.assert_allclose(lost.weight, 1 / 3)
