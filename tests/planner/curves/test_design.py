import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.curves.design import whitening


@st.composite
def observations(draw):
    """Ascending times from 0, variances (some infinite: nothing observed), drifts; (n, m), (n, h, m), (h,)."""
    n, h, m = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 8))
    passed = st.sampled_from([0.0, 0.0, 0.01, 0.3, 1.0, 5.0])
    time = np.array([np.cumsum([0.0, *draw(st.lists(passed, min_size=m - 1, max_size=m - 1))]) for _ in range(n)])
    each = st.one_of(st.just(np.inf), st.floats(1e-3, 10))
    variance = np.array(draw(st.lists(each, min_size=n * h * m, max_size=n * h * m))).reshape(n, h, m)
    return time, variance, np.array(draw(st.lists(st.floats(0.01, 2), min_size=h, max_size=h)))


def dense_covariance(time, variance, drift):
    return drift**2 * np.minimum(time[:, None], time[None, :]) + np.diag(variance)


@given(observations())
def test_matrix_and_determinant_are_those_of_the_dense_covariance(observed):
    time, variance, drift = observed
    whitened, log_determinant = whitening(time, variance, drift)
    for i, j in np.ndindex(*variance.shape[:2]):
        seen = np.isfinite(variance[i, j])
        covariance = dense_covariance(time[i][seen], variance[i, j][seen], drift[j])
        matrix = whitened[i, j][np.ix_(seen, seen)]
        inverse = np.linalg.inv(covariance)
        np.testing.assert_allclose(matrix.T @ matrix, inverse, rtol=1e-7, atol=1e-9 * np.abs(inverse).max(initial=1))
        assert log_determinant[i, j] == pytest.approx(np.linalg.slogdet(covariance)[1], abs=1e-9)


@given(observations())
def test_bins_without_an_observation_count_for_nothing(observed):
    time, variance, drift = observed
    matrix, _ = whitening(time, variance, drift)
    unseen = np.broadcast_to(np.isinf(variance)[:, :, None, :], matrix.shape)
    assert np.all(matrix[unseen] == 0)
    assert np.all(matrix[np.swapaxes(unseen, 2, 3)] == 0)


@given(observations())
def test_rows_depend_on_earlier_bins_alone(observed):
    matrix, _ = whitening(*observed)
    assert np.all(np.triu(matrix, 1) == 0)


def test_whitened_draws_are_independent_and_standard():
    time, variance, drift = np.array([[0.0, 0.5, 0.6, 3.0]]), np.array([[[0.1, 0.02, 0.5, 0.1]]]), np.array([0.7])
    covariance = dense_covariance(time[0], variance[0, 0], drift[0])
    draws = np.random.default_rng(1).multivariate_normal(np.zeros(4), covariance, size=20_000)
    white = draws @ whitening(time, variance, drift)[0][0, 0].T
    np.testing.assert_allclose(np.cov(white.T), np.eye(4), atol=0.04)
