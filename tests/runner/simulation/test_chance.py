import statistics
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chisquare, kstest

from runner.simulation import chance

numbers = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5)


@given(numbers)
def test_a_draw_follows_from_its_numbers_alone(given_numbers: list[int]) -> None:
    assert chance.mixed(*given_numbers) == chance.mixed(*given_numbers)
    assert 0 < chance.uniform(*given_numbers) < 1


def test_the_order_of_the_numbers_counts() -> None:
    drawn = {chance.mixed(a, b) for a in range(50) for b in range(50)}
    assert len(drawn) == 2500


def test_draws_of_neighbouring_numbers_are_as_if_independent() -> None:
    values = [chance.uniform(3, step) for step in range(4000)]
    assert kstest(values, "uniform").pvalue > 0.01
    assert abs(statistics.correlation(values[1:], values[:-1])) < 0.05


@pytest.mark.parametrize(("share", "draws"), [(0.03, 400), (0.5, 20), (0.97, 300), (0.4, 2000)])
def test_binomial_draws_have_the_binomials_moments(share: float, draws: int) -> None:
    values = [chance.binomial(share, draws, 5, i) for i in range(4000)]
    law = binom(draws, share)
    assert statistics.mean(values) == pytest.approx(law.mean(), abs=4 * law.std() / 4000**0.5)
    assert statistics.pstdev(values) == pytest.approx(law.std(), rel=0.06)
    assert all(0 <= value <= draws for value in values)


def test_few_successes_are_drawn_exactly() -> None:
    seen = Counter(chance.binomial(0.01, 300, 6, i) for i in range(5000))
    expected = [5000 * binom(300, 0.01).pmf(k) for k in range(8)]
    counts = [seen[k] for k in range(8)]
    assert chisquare([*counts, 5000 - sum(counts)], [*expected, 5000 - sum(expected)]).pvalue > 0.01


@pytest.mark.parametrize(("share", "successes"), [(0.0, 0), (-0.1, 0), (1.0, 40), (1.2, 40)])
def test_what_is_certain_is_drawn_so(share: float, successes: int) -> None:
    assert chance.binomial(share, 40, 1) == successes
