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


def mixture(row) -> Mixtures:
    weight, mean, sd, (low, high) = row
    return Mixtures(weight[None], mean[None], sd[None], np.array([low]), np.array([high]))


def scipy_cdf(row, value: float) -> float:
    weight, mean, sd, _ = row
    return float(weight @ stats.norm.cdf(value, mean, sd))


def span(row) -> tuple[float, float]:
    _, mean, sd, (low, high) = row
    return max(low, float((mean - 12 * sd).min())), min(high, float((mean + 12 * sd).max()))


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
    found = mixture(row).quantile(level)[0]
    assert found == pytest.approx(np.clip(exact, low, high), abs=(above - below) / 2**9 + 1e-9)
    assert low <= found <= mixture(row).quantile((1 + level) / 2)[0] <= high


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
