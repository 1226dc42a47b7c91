"""The posterior against a dense Gaussian process: the covariance of all scores written out, and inverted as a whole."""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

from bench import synthetic
from planner.curves import posterior as posterior_module
from planner.curves.curve import Curve
from planner.curves.fit import fit_curves
from planner.curves.posterior import Posterior, Prior, over_chunks
from planner.curves.preparation import prepare
from tests.planner.curves.family_samples import Sigmoid, curve_of

SMALL = Prior(
    exponents=(1.8,),
    exponent_weights=(1,),
    earliest_midpoint=0.3,
    latest_midpoint=4.0,
    drifts=(0.1,),
    drift_weights=(1,),
    noise_factors=(1.0,),
    surprise=0.0,
)
SEVERAL = Prior(
    exponents=(0.8, 2.5),
    exponent_weights=(1, 3),
    earliest_midpoint=0.3,
    latest_midpoint=4.0,
    drifts=(0.02, 0.3),
    drift_weights=(2, 1),
    noise_factors=(0.8, 1.5),
    surprise=0.0,
)
PRIORS = pytest.mark.parametrize("prior", [SMALL, SEVERAL], ids=["small", "several"])
AT = {"start": 0.0, "before": 0.2, "first": 1.0, "between": 4.3, "at": 6.0, "last": 11.0, "soon": 13.0, "far": 90.0}


def a_curve(*, bounded: bool, step_zero: bool = True) -> Curve:
    x = np.array([0, 1, 2, 2.5, 4, 5, 6, 8, 9, 11])[0 if step_zero else 1 :]
    noise = 0.02 * np.random.default_rng(4).normal(size=x.size)
    y = 0.3 + 0.4 / (1 + (4 / np.maximum(x, 1e-9)) ** 2) + noise
    return Curve.of("c", x, y if bounded else 12 * y - 7)


def posterior_of_one(curve: Curve, prior: Prior) -> Posterior:
    (posterior,) = over_chunks([curve], lambda _, posterior: posterior, prior)
    return posterior


def predicted(curves: list[Curve], at: list[float], levels: list[float]) -> np.ndarray:
    def quantiles(rows: slice, posterior: Posterior) -> np.ndarray:
        mixtures = posterior.predict(np.array(at[rows]))
        return np.stack([mixtures.quantile(level) for level in levels], axis=1)

    return np.concatenate(over_chunks(curves, quantiles))


class Dense(NamedTuple):
    """What the dense computation says of one component, in units of the scale."""

    log_weight: float
    mean: np.ndarray
    covariance: np.ndarray
    prediction: float
    variance: float


def dense(curve: Curve, prior: Prior, at: float) -> list[Dense]:
    """Every component by brute force: drift and noise factor outermost, then sigmoids, the line, the constant."""
    prepared = prepare([curve])
    seen = prepared.weight[0] > 0
    variance = prepared.variance[0, seen]
    y = curve.y / prepared.scale[0]
    drifts = zip(prior.drifts, np.array(prior.drift_weights) / sum(prior.drift_weights), strict=True)
    factors = [(factor, 1 / len(prior.noise_factors)) for factor in prior.noise_factors]
    result = []
    for ((drift, drift_share), (factor, factor_share)), component in product(
        product(drifts, factors), components(curve, prior, at)
    ):
        one = dense_component(curve.x, y, variance * factor**2, drift, prior, at, *component[1:])
        extra = np.log(component[0] * drift_share * factor_share) + truncation(curve, y, prior, component, one)
        result.append(one._replace(log_weight=one.log_weight + extra))
    return result


def components(curve, prior, at):
    """(share, basis at the points and at the target, mean and sd of the gain, whether a sigmoid)."""
    last, first = curve.x[-1], curve.x[curve.x > 0][0]
    x = np.append(curve.x, at)
    name = "bounded" if curve.bounded else "unbounded"
    gain = getattr(prior, f"gain_mean_{name}"), getattr(prior, f"gain_sd_{name}")
    for exponent, midpoint, log_share in zip(
        prior.grid_exponent, prior.grid_midpoint, prior.log_weights[:-2], strict=True
    ):
        with np.errstate(divide="ignore"):
            basis = 1 / (1 + (np.exp(midpoint) * last / x) ** exponent)
        yield np.exp(log_share), basis, *gain, True
    line = np.log(np.maximum(x, first) / first)
    yield prior.share_line, line, prior.slope_mean, prior.slope_sd, False
    yield prior.share_constant, np.zeros_like(x), 0.0, 1.0, False


def dense_component(x, y, variance, drift, prior, at, basis, gain_mean, gain_sd, _):
    first = x[x > 0][0]
    all_x = np.append(x, at)
    time = np.log(np.maximum(all_x, first) / first)
    prior_of = np.diag([prior.start_sd**2, gain_sd**2])
    design = np.stack([np.ones_like(all_x), basis], axis=1)
    covariance = design @ prior_of @ design.T + drift**2 * np.minimum(time[:, None], time)
    mean = y[:3].mean() + gain_mean * basis
    of_scores = covariance[:-1, :-1] + np.diag(variance)
    inverse, residual = np.linalg.inv(of_scores), y - mean[:-1]
    with_parameters = prior_of @ design[:-1].T
    beyond = max(0.0, np.log(max(at, 1e-9) / x[-1]))
    return Dense(
        log_weight=stats.multivariate_normal.logpdf(y, mean[:-1], of_scores),
        mean=np.array([y[:3].mean(), gain_mean]) + with_parameters @ inverse @ residual,
        covariance=prior_of - with_parameters @ inverse @ with_parameters.T,
        prediction=mean[-1] + covariance[-1, :-1] @ inverse @ residual,
        variance=covariance[-1, -1]
        - covariance[-1, :-1] @ inverse @ covariance[:-1, -1]
        + (prior.future_drift**2 - 1) * drift**2 * beyond,
    )


def truncation(curve, y, prior, component, one: Dense) -> float:
    """Log of P(A in [0, 1] | points) / P(A in [0, 1]), by which a prior that keeps A in its bounds changes evidence."""
    _, _, gain_mean, gain_sd, sigmoid = component
    if not (curve.bounded and sigmoid):
        return 0.0
    before = stats.norm(y[:3].mean() + gain_mean, np.hypot(prior.start_sd, gain_sd))
    after = stats.norm(one.mean.sum(), np.sqrt(one.covariance.sum()))
    return float(np.log((after.cdf(1) - after.cdf(0)) / (before.cdf(1) - before.cdf(0))))


def weights(expected: list[Dense]) -> np.ndarray:
    log_weight = np.array([each.log_weight for each in expected])
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum()


@PRIORS
@pytest.mark.parametrize("step_zero", [True, False])
@pytest.mark.parametrize("bounded", [True, False])
def test_weights_and_moments_are_those_of_the_dense_computation(prior, bounded, step_zero):
    curve = a_curve(bounded=bounded, step_zero=step_zero)
    expected, posterior = dense(curve, prior, 1.0), posterior_of_one(curve, prior)
    np.testing.assert_allclose(
        posterior.weight.ravel(), weights(expected), rtol=1e-6, atol=1e-9
    )  # below, bounds are not applied
    np.testing.assert_allclose(posterior.start.ravel(), [each.mean[0] for each in expected], rtol=1e-7)
    np.testing.assert_allclose(posterior.gain.ravel(), [each.mean[1] for each in expected], rtol=1e-7, atol=1e-9)
    shape = posterior.weight.shape
    for name, index in (("start_variance", (0, 0)), ("gain_variance", (1, 1)), ("covariance", (0, 1))):
        found = np.broadcast_to(getattr(posterior, name), shape).ravel()
        np.testing.assert_allclose(found, [each.covariance[index] for each in expected], rtol=1e-6, atol=1e-12)


@PRIORS
@pytest.mark.parametrize("at", AT.values(), ids=AT)
def test_predictions_are_those_of_the_dense_computation(prior, at):
    curve = a_curve(bounded=False)
    expected, scale = dense(curve, prior, at), prepare([curve]).scale[0]
    mean = scale * np.array([each.prediction for each in expected])
    sd = scale * np.sqrt([each.variance for each in expected])
    mixture = posterior_of_one(curve, prior).predict(np.array([at]))
    for value in np.linspace(mean.min() - sd.max(), mean.max() + sd.max(), 9):
        share = weights(expected) @ stats.norm.cdf(value, mean, sd)
        assert mixture.cdf(np.array([value]))[0] == pytest.approx(share, abs=1e-7)
    assert mixture.average()[0] == pytest.approx(weights(expected) @ mean, rel=1e-7)


def test_chunks_come_back_in_order():
    def numbered(number: int) -> Curve:
        return Curve.of(str(number), np.arange(1, 6), np.full(5, number / 200))

    curves = [numbered(number) for number in range(150)]
    medians = predicted(curves, [5.0] * 150, [0.5])[:, 0]
    np.testing.assert_allclose(medians, np.arange(150) / 200, atol=0.01)
    assert [fit.curve for fit in fit_curves(curves)] == [curve.name for curve in curves]
    assert over_chunks([], lambda rows, posterior: rows) == []


def test_condensing_the_posterior_hardly_moves_its_interval(monkeypatch):
    """Thousands of components become dozens; what that may cost is stated here, in score points of [0, 1]."""
    rng = np.random.default_rng(0)
    shapes = [shape for shape in ("saturating", "sigmoid", "late-start", "dead") for _ in range(20)]
    drawn = [synthetic.draw(shape, rng).curve for shape in shapes]
    early, at = [curve.first_fraction(0.3) for curve in drawn], [float(curve.x[-1]) for curve in drawn]
    levels = [0.05, 0.5, 0.95]
    condensed = predicted(early, at, levels)
    monkeypatch.setattr(posterior_module, "KEPT", 1_000_000)
    error = np.abs(condensed - predicted(early, at, levels))
    assert error.mean() < 0.004
    assert error.max() < 0.06
    assert error[:, 1].max() < 0.02


def coverage_at_the_end(drawn: Sequence[synthetic.SyntheticCurve], fraction: float) -> float:
    """How often the 90 % interval from the first part of a curve holds its noise-free score at the end."""
    ends = [each.curve.end[0] for each in drawn]
    truth = np.array([float(each.truth(np.array([end]))[0]) for each, end in zip(drawn, ends, strict=True)])
    fits = fit_curves([each.curve.first_fraction(fraction) for each in drawn], [[end] for end in ends])
    low, high = (np.array([getattr(fit.predictions[0], name) for fit in fits]) for name in ("low", "high"))
    return float(np.mean((low - 1e-9 <= truth) & (truth <= high + 1e-9)))


@pytest.mark.parametrize("fraction", [0.25, 0.5])
def test_intervals_cover_the_truth_of_the_fields_mixture_of_shapes(fraction):
    drawn = synthetic.suite(np.random.default_rng(23), 24)
    assert 0.82 <= coverage_at_the_end(drawn, fraction) <= 0.99


@pytest.mark.parametrize("fraction", [0.25, 0.5])
@pytest.mark.parametrize("shape", ["sigmoid", "saturating", "power-law"])
def test_intervals_cover_the_truth_of_ordinary_pass_rates(shape, fraction):
    # No upper limit: an interval that has room for slides and second rises holds nearly every clean curve.
    rng = np.random.default_rng(23)
    assert coverage_at_the_end([synthetic.draw(shape, rng) for _ in range(250)], fraction) >= 0.82


def test_intervals_of_parameters_hold_those_of_drawn_sigmoids():
    rng = np.random.default_rng(5)
    laws = [Sigmoid(*rng.uniform((0.1, 0.5, 1.0, 30.0), (0.4, 0.95, 3.0, 120.0))) for _ in range(200)]
    fits = fit_curves([curve_of(law, np.arange(1.0, 201), 0.02, seed) for seed, law in enumerate(laws)])
    for name in Sigmoid._fields:
        found = [(fit.parameters[name], getattr(law, name)) for fit, law in zip(fits, laws, strict=True)]
        assert np.mean([each.low <= truth <= each.high for each, truth in found]) >= 0.82, name
