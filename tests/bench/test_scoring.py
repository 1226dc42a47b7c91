import numpy as np
import pytest
from scipy import stats

from bench import scoring
from bench.scoring import LEVELS


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


def test_honesty_counts_the_ends_of_intervals_as_inside():
    assert scoring.honesty([0, 0, 0, 0], [1, 1, 1, 3], [0, 1, 1.01, -0.01]) == scoring.Honesty(0.5, 1.5)


def test_an_interval_of_one_value_holds_it_in_spite_of_rounding():
    third = 1 / 3
    assert scoring.honesty([3 * third * 0.1], [3 * third * 0.1], [0.1 + 1e-16]).coverage == 1
    assert scoring.honesty([0.0], [0.0], [1e-6]).coverage == 0
