import numpy as np
import pytest

from bench.allocating.prices import Price, Prices, Work, quiet_prices
from budgets.errors import InputError

TRUE = Prices(Price(0.008, 1e-4, 1e-4), Price(0.012, 3e-4, 5e-4), 0.07)


def work(n: int, B: int, load: np.ndarray) -> Work:
    """A run whose updates take as many times as long as the load says."""
    rollouts = np.concatenate([[0.0], np.full(load.size, float(n * B))])
    busy = np.concatenate([[1.0], load])
    validated = np.arange(load.size + 1) % 4 == 0
    return Work(
        per_prompt=n,
        generated=rollouts,
        trained=rollouts,
        generating=busy * TRUE.generating.of(rollouts, n),
        training=busy * TRUE.training.of(rollouts, n),
        validating=busy * validated * TRUE.validating,
        validated=validated,
    )


def test_quiet_prices_are_found_although_the_load_changes_and_some_cells_were_never_quiet() -> None:
    generator = np.random.default_rng(0)
    cells = [(n, B) for n in (2, 8, 32, 128) for B in (2, 8, 32) if 32 <= n * B <= 1024]
    works = [work(n, B, 1 + 2 * generator.random() + np.linspace(0, generator.random(), 80)) for n, B in cells]
    works += [work(16, 16, np.full(80, 3.0)), work(4, 32, np.ones(80))]
    found = quiet_prices(works)
    for each in works:
        assert found.gpu_hours(each)[-1] == pytest.approx(TRUE.gpu_hours(each)[-1], rel=0.03)
    assert works[-2].measured[-1] > 2.8 * 3600 * found.gpu_hours(works[-2])[-1]


def test_the_load_is_that_of_the_validations_around_and_one_slow_validation_is_none() -> None:
    load = np.ones(40)
    load[20:] = 2.0
    each = work(8, 8, load)
    each.validating[8] *= 5  # a hiccup
    around = each.load(TRUE.validating)
    assert around[:17].tolist() == [1.0] * 17
    assert around[26:].tolist() == pytest.approx([2.0] * 15)


def test_hours_count_updates_and_validations_and_start_with_the_first_validation() -> None:
    each = work(4, 8, np.ones(8))
    hours = TRUE.gpu_hours(each)
    assert hours[0] == pytest.approx(0.07 / 3600)
    assert hours[-1] == pytest.approx((8 * TRUE.update(each)[1] + 3 * 0.07) / 3600)


def test_nothing_costs_nothing() -> None:
    assert Price(1.0, 1.0, 1.0).of(np.array([0.0, 4.0]), 2).tolist() == [0.0, 7.0]


def test_prices_of_no_run_are_refused() -> None:
    with pytest.raises(InputError, match="no run"):
        quiet_prices([])
