import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from bench import scoring
from bench.scoring import LEVELS
from budgets.errors import InputError

finite = st.floats(-1e6, 1e6)


def crps_of_gaussian(mean, sd, truth):
    """Gneiting and Raftery 2007, eq. 5 with the sign turned."""
    z = (truth - mean) / sd
    return sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))


@pytest.mark.parametrize("z", [0.0, -0.7, 1.0, -2.5, 6.0])
@pytest.mark.parametrize(("mean", "sd"), [(0.5, 0.1), (-3.0, 20.0)])
def test_crps_of_gaussian_quantiles_is_the_closed_form(mean, sd, z):
    truth = mean + z * sd
    crps = scoring.crps_of_quantiles(stats.norm.ppf(LEVELS, mean, sd), truth)
    assert crps == pytest.approx(crps_of_gaussian(mean, sd, truth), abs=0.005 * sd)


@given(finite, finite)
def test_crps_of_a_certain_distribution_is_its_absolute_error(value, truth):
    expected = scoring.crps_of_point(value, truth)
    assert expected == abs(value - truth)
    assert scoring.crps_of_quantiles(np.full(100, value), truth) == pytest.approx(expected)


@given(hnp.arrays(float, 100, elements=finite), finite, st.floats(0.1, 10), finite)
def test_crps_scales_with_the_scores_and_ignores_their_origin(values, truth, scale, shift):
    quantiles = np.sort(values)
    plain = scoring.crps_of_quantiles(quantiles, truth)
    moved = scoring.crps_of_quantiles(scale * quantiles + shift, scale * truth + shift)
    assert plain >= 0
    assert moved == pytest.approx(scale * plain, abs=1e-6)


def test_crps_is_taken_over_the_last_axis_of_any_batch():
    quantiles = np.sort(np.random.default_rng(0).normal(size=(2, 3, 100)), axis=-1)
    truths = np.arange(6.0).reshape(2, 3)
    batched = scoring.crps_of_quantiles(quantiles, truths)
    assert batched.shape == (2, 3)
    assert batched[1, 2] == pytest.approx(scoring.crps_of_quantiles(quantiles[1, 2], 5.0))


@pytest.mark.parametrize("wrong", [0.3, 3.0])
def test_crps_prefers_the_true_spread(wrong):
    truths = np.random.default_rng(2).normal(size=2000)

    def mean_crps(sd):
        return scoring.crps_of_quantiles(np.tile(stats.norm.ppf(LEVELS, 0, sd), (2000, 1)), truths).mean()

    assert mean_crps(1.0) < mean_crps(wrong)


@pytest.mark.parametrize(
    ("level", "expected"), [(0.05, 0.05), (0.5, 0.5), (0.123, 0.123), (0.95, 0.95), (0.001, 0.005), (1.0, 0.995)]
)
def test_a_quantile_between_the_levels_is_interpolated_and_beyond_them_the_outermost(level, expected):
    np.testing.assert_allclose(scoring.quantile([LEVELS, 2 * LEVELS], level), [expected, 2 * expected])


def test_errors_are_absolute():
    summary = scoring.errors([0.0] * 11, [-1.0, *range(10)])
    assert summary == scoring.Errors(mean=pytest.approx(46 / 11), median=4.0, p90=8.0)


def test_honesty_counts_the_ends_of_intervals_as_inside():
    assert scoring.honesty([0, 0, 0, 0], [1, 1, 1, 3], [0, 1, 1.01, -0.01]) == scoring.Honesty(0.5, 1.5)


def test_an_interval_of_one_value_holds_it_in_spite_of_rounding():
    third = 1 / 3
    assert scoring.honesty([3 * third * 0.1], [3 * third * 0.1], [0.1 + 1e-16]).coverage == 1
    assert scoring.honesty([0.0], [0.0], [1e-6]).coverage == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: scoring.crps_of_quantiles(np.zeros((2, 99)), [0, 0]),
        lambda: scoring.crps_of_quantiles(np.zeros(100), [0, 0]),
        lambda: scoring.errors([], []),
        lambda: scoring.honesty([], [], []),
        lambda: scoring.honesty([0], [1, 2], [0, 0]),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call):
    with pytest.raises(InputError):
        call()
