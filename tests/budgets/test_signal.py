import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from budgets.allocation import Allocation, steps_for_budget
from budgets.growth import Growth
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


def test_learning_rate_grows_with_the_root_of_the_batch() -> None:
    assert Allocation(8, 128, 1).learning_rate(1e-6, 1024) == 1e-6
    assert Allocation(32, 128, 1).learning_rate(1e-6, 1024) == pytest.approx(2e-6)
    assert Allocation(8, 32, 1).learning_rate(1e-6, 1024) == pytest.approx(0.5e-6)
    assert Allocation(64, 1024, 1).learning_rate(1e-6, 1024) == Allocation(64, 128, 1).learning_rate(1e-6, 1024)


POSITIVE = st.floats(1e-6, 1e3)


@given(
    budget=st.floats(0, 1e5) | st.tuples(st.integers(1, 10**6), st.sampled_from([-1, 0, 1])),
    per_step=POSITIVE,
    start_up=st.floats(0, 100),
)
@example(budget=0.3, per_step=0.1, start_up=0.0)  # 3 · 0.1 is a little above it
@example(budget=220.32, per_step=6.48, start_up=0.0)
def test_the_steps_fit_the_budget_and_one_more_does_not(
    budget: float | tuple[int, int], per_step: float, start_up: float
) -> None:
    """Of any budget, and of those that pay exactly or all but."""
    if isinstance(budget, tuple):
        exact = budget[0] * per_step + start_up
        budget = math.nextafter(exact, budget[1] * math.inf) if budget[1] else exact
    steps = steps_for_budget(budget, per_step, start_up)
    assert not steps or steps * per_step + start_up <= budget
    assert (steps + 1) * per_step + start_up > budget * (1 - 1e-12)


growths = st.builds(Growth, st.floats(1.01, 64), st.integers(1, 200))
batches = st.integers(1, 300)


@given(growths, batches, st.integers(0, 3000))
def test_the_batch_doubles_when_the_prompts_done_have_quadrupled(growth: Growth, B: int, update: int) -> None:
    """Against the rule itself, applied to one update after the other's counts."""
    first = math.ceil(B / growth.factor)
    done = growth.rollouts(1, B, update)
    size, doubling_at = first, first * growth.first_updates
    while done >= doubling_at and size < B:
        size, doubling_at = min(B, 2 * size), 4 * doubling_at
    assert growth.prompts(B, update) == size


@given(growths, batches, st.integers(2, 64), st.integers(0, 400))
def test_rollouts_add_up_over_the_updates(growth: Growth, B: int, n: int, updates: int) -> None:
    sizes = [growth.prompts(B, update) for update in range(updates)]
    assert growth.rollouts(n, B, updates) == n * sum(sizes)
    assert sum(count for _, count in growth.spans(B, updates)) == updates


def test_names() -> None:
    assert Growth.named("none") is None
    assert Growth.named("4x") == Growth(4.0, 32)
    assert Growth.named("2.5x@8") == Growth(2.5, 8)
    assert (Growth(4).name, Growth(2.5, 8).name) == ("4x", "2.5x@8")
