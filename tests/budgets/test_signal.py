import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.signal import (
    BetaPassRates,
    MeasuredPassRates,
    PassRates,
    UniformPassRates,
    difficulty_of,
    signal_fraction,
)

GROUP = st.integers(2, 256)


def carried(rates: np.ndarray, n: int) -> np.ndarray:
    return 1 - rates**n - (1 - rates) ** n


@pytest.mark.parametrize("band", [(0.3, 0.6), (0.0, 0.0625), (0.0, 1.0), (0.9, 0.95)])
@pytest.mark.parametrize("n", [2, 3, 8, 64])
def test_uniform_bands_against_numerical_integration(band: tuple[float, float], n: int) -> None:
    nodes, weights = np.polynomial.legendre.leggauss(80)
    rates = band[0] + (band[1] - band[0]) * (nodes + 1) / 2
    integral = float(weights @ carried(rates, n)) / 2
    assert signal_fraction(UniformPassRates(*band), n) == pytest.approx(integral, abs=1e-12)
    assert UniformPassRates(*band).mean == pytest.approx(sum(band) / 2)


@pytest.mark.parametrize(("mean", "concentration"), [(0.5, 2.0), (0.2, 3.0), (0.05, 3.0), (0.7, 20.0)])
@pytest.mark.parametrize("n", [2, 8, 64])
def test_beta_moments_against_monte_carlo(mean: float, concentration: float, n: int) -> None:
    rng = np.random.default_rng(7)
    shares = carried(rng.beta(mean * concentration, (1 - mean) * concentration, 200_000), n)
    error = shares.std() / math.sqrt(shares.size)
    assert signal_fraction(BetaPassRates(mean, concentration), n) == pytest.approx(shares.mean(), abs=4.5 * error)
    assert BetaPassRates(mean, concentration).mean == mean


ANY_RATES = (
    st.tuples(st.floats(0, 0.9), st.floats(0.01, 0.1)).map(lambda pair: UniformPassRates(pair[0], pair[0] + pair[1]))
    | st.tuples(st.floats(0.01, 0.99), st.floats(0.1, 100)).map(lambda pair: BetaPassRates(*pair))
    | st.lists(st.floats(0, 1), min_size=1, max_size=20).map(lambda rates: MeasuredPassRates(tuple(rates)))
)


@given(rates=ANY_RATES, n=GROUP)
def test_larger_groups_carry_signal_more_often(rates: PassRates, n: int) -> None:
    small, large = signal_fraction(rates, n), signal_fraction(rates, n + 1)
    assert 0 <= small <= large + 1e-9
    assert large <= 1


def test_prompts_always_or_never_solved_carry_nothing() -> None:
    assert signal_fraction(MeasuredPassRates((0.0, 1.0)), 512) == 0
    assert signal_fraction(MeasuredPassRates((0.0, 0.5)), 64) == pytest.approx(0.5)
    assert MeasuredPassRates((0.0, 0.5)).mean == 0.25


@pytest.mark.parametrize(
    ("rates", "band"),
    [
        (0.45, "easy"),
        (0.18, "medium"),
        (0.03, "hard"),
        (0.0625, "hard"),
        (0.8, "mixed"),
        ([0.02, 0.0, 0.05, 0.06], "hard"),
        ([0.35, 0.4, 0.5, 0.58, 0.9], "easy"),  # one of five outside is still the band
        ([0.0, 0.0, 0.9, 0.9], "mixed"),  # the mean is easy, no prompt is
    ],
)
def test_the_band_of_measured_rates(rates: float | list[float], band: str) -> None:
    assert difficulty_of(rates) == band
