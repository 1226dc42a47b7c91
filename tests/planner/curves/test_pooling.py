import numpy as np
import pytest

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.pooling import Coordinates, pool
from planner.curves.posterior import predict_quantiles

CELLS = [(n, B) for n in (2, 4, 8, 16, 32, 64, 128) for B in (2, 4, 8, 16, 32, 64) if 32 <= n * B <= 1024]
COORDINATES = np.log(np.array(CELLS, dtype=float))
TARGET = 100.0
MEDIAN = np.array([0.5])


def table(seed: int, *, smooth: bool, window: float = 0.25, noise: float = 0.015) -> tuple[list[Curve], Vector]:
    """Curves over the grid with A and log C_mid smooth in (log n, log B), or scattered; and the truth at the target."""
    rng = np.random.default_rng(seed)
    slopes, bends = rng.normal(0, 1, 6), rng.normal(0, 1, 6)
    curves, truth = [], []
    for n, B in CELLS:
        u, v = (np.log2(n) - 4) / 2, (np.log2(B) - 3.5) / 2
        surface = 0.7 + 0.05 * slopes[0] * u + 0.05 * slopes[1] * v - 0.04 * u * u - 0.03 * v * v
        asymptote = surface if smooth else 0.7 + 0.08 * rng.standard_normal()
        midpoint = 0.4 * bends[0] * u + 0.3 * bends[1] * v if smooth else 0.6 * rng.standard_normal()
        x = np.arange(1, 41) * window * TARGET / 40
        gain = (asymptote - 0.3) / (1 + (10 * np.exp(midpoint) / x) ** 1.2)
        curves.append(Curve.of(f"{n}x{B}", x, 0.3 + gain + noise * rng.standard_normal(40), bounded=True))
        truth.append(0.3 + (asymptote - 0.3) / (1 + (10 * np.exp(midpoint) / TARGET) ** 1.2))
    return curves, np.array(truth)


def errors(*, smooth: bool, seeds: range) -> tuple[float, float]:
    """Mean absolute errors at the target: pooled, and of each curve alone."""
    pooled, alone = [], []
    for seed in seeds:
        curves, truth = table(seed, smooth=smooth)
        draws = pool(curves, COORDINATES).draws(TARGET, np.random.default_rng(seed), 800)
        pooled.append(np.abs(draws.mean(axis=1) - truth).mean())
        alone.append(np.abs(predict_quantiles(curves, [TARGET] * len(curves), MEDIAN)[:, 0] - truth).mean())
    return float(np.mean(pooled)), float(np.mean(alone))


def test_neighbours_help_where_the_surface_is_smooth() -> None:
    pooled, alone = errors(smooth=True, seeds=range(6))
    assert pooled < 0.85 * alone


def test_where_curves_disagree_each_is_as_good_as_by_itself() -> None:
    pooled, alone = errors(smooth=False, seeds=range(6))
    assert pooled < 1.05 * alone
    calm, rough = (
        [pool(table(seed, smooth=smooth)[0], COORDINATES).asymptote.spread for seed in range(3)]
        for smooth in (True, False)
    )
    assert max(calm) < min(rough)


def test_draws_cover_the_truth_and_stay_within_the_scale() -> None:
    inside = []
    for seed in range(4):
        curves, truth = table(seed, smooth=True)
        draws = pool(curves, COORDINATES).draws(TARGET, np.random.default_rng(seed), 1000)
        assert draws.min() >= 0
        assert draws.max() <= 1
        low, high = np.quantile(draws, [0.05, 0.95], axis=1)
        inside.append(((low <= truth) & (truth <= high)).mean())
    assert np.mean(inside) >= 0.85


def test_configurations_without_a_curve_are_predicted_from_the_others() -> None:
    errors, baseline, inside = [], [], []
    for seed in range(6):
        curves, truth = table(seed, smooth=True)
        kept = np.random.default_rng(seed).random(len(curves)) < 0.65
        pooled = pool([curve for curve, keep in zip(curves, kept, strict=True) if keep], COORDINATES[kept])
        draws = pooled.draws(TARGET, np.random.default_rng(0), 1000, unseen=COORDINATES[~kept])
        assert draws.shape == (len(curves), 1000)
        unseen, expected = draws[kept.sum() :], truth[~kept]
        errors.append(np.abs(unseen.mean(axis=1) - expected).mean())
        baseline.append(np.abs(expected - truth[kept].mean()).mean())
        low, high = np.quantile(unseen, [0.05, 0.95], axis=1)
        inside.append(((low <= expected) & (expected <= high)).mean())
    assert np.mean(errors) < 0.7 * np.mean(baseline)
    assert np.mean(inside) >= 0.85


def test_the_best_is_likelier_to_be_called_best_than_the_worst() -> None:
    curves, truth = table(1, smooth=True)
    chance = pool(curves, COORDINATES).probability_best(TARGET, np.random.default_rng(0))
    assert chance.sum() == pytest.approx(1)
    top, bottom = np.argsort(-truth)[:5], np.argsort(truth)[:5]
    assert chance[top].sum() > 2 * chance[bottom].sum()


def test_seeds_of_one_configuration_share_their_surface() -> None:
    curves, _ = table(0, smooth=True)
    twice = [*curves, *table(0, smooth=True, noise=0.02)[0]]
    pooled = pool(twice, np.vstack([COORDINATES, COORDINATES]))
    assert pooled.features.shape == (2 * len(CELLS), 6)
    assert np.array_equal(pooled.features[: len(CELLS)], pooled.features[len(CELLS) :])


@pytest.mark.parametrize(("configurations", "features"), [(1, 1), (3, 1), (4, 3), (8, 3), (9, 6)])
def test_the_surface_is_only_as_curved_as_the_configurations_support(configurations: int, features: int) -> None:
    points = COORDINATES[:configurations]
    assert Coordinates.of(points).features(points).shape == (configurations, features)
    curves = table(0, smooth=True)[0][:configurations]
    draws = pool(curves, points).draws(TARGET, np.random.default_rng(0), 50)
    assert np.isfinite(draws).all()


def test_unbounded_scores_can_be_pooled() -> None:
    curves, truth = table(2, smooth=True)
    rewards = [Curve.of(curve.name, curve.x, 10 * curve.y - 2, bounded=False) for curve in curves]
    draws = pool(rewards, COORDINATES).draws(TARGET, np.random.default_rng(0), 800)
    assert np.abs(draws.mean(axis=1) - (10 * truth - 2)).mean() < 0.6


def test_the_same_generator_gives_the_same_draws() -> None:
    curves, _ = table(0, smooth=True)
    pooled = pool(curves, COORDINATES)
    first, second = (pooled.draws(TARGET, np.random.default_rng(7), 20) for _ in range(2))
    assert np.array_equal(first, second)


def test_what_cannot_be_pooled_is_refused() -> None:
    curves, _ = table(0, smooth=True)
    with pytest.raises(InputError, match="2 curves and 3 rows of coordinates"):
        pool(curves[:2], COORDINATES[:3])
    with pytest.raises(InputError, match="must be finite; take logarithms"):
        pool(curves[:1], [[np.log(8), -np.inf]])
