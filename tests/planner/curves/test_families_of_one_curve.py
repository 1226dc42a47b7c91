import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.families.base import Family
from planner.curves.families.optimal_group import OptimalGroupFit
from planner.curves.families.power import PowerLaw, PowerLawFit
from planner.curves.families.sigmoid import Sigmoid, SigmoidFit
from tests.planner.curves.family_samples import EASY, PUBLISHED_SIZES, curve_of

CURVE_FAMILIES: list[Family[Curve]] = [Sigmoid(), Sigmoid(robust=True), PowerLaw(), PowerLaw(robust=True)]
LABELS = ["sigmoid", "robust sigmoid", "power law", "robust power law"]


# Sigmoid and power law


@given(
    start=st.floats(0, 0.4),
    asymptote=st.floats(0.5, 1),
    steepness=st.floats(0.6, 5),
    midpoint=st.floats(1e-3, 1e6),
)
@settings(max_examples=25, deadline=None)
def test_a_sigmoid_without_noise_is_recovered(
    start: float, asymptote: float, steepness: float, midpoint: float
) -> None:
    truth = SigmoidFit(start, asymptote, steepness, midpoint, 0.0)
    fit = Sigmoid().fit(curve_of(truth, np.append(0.0, np.geomspace(midpoint / 10, midpoint * 20, 40))))
    assert fit.parameters == pytest.approx(truth.parameters, rel=1e-4, abs=1e-6)
    assert fit.rss < 1e-9


@given(fraction=st.floats(0.01, 0.99), steepness=st.floats(0.3, 5))
def test_the_compute_at_a_gain_is_where_the_sigmoid_has_gained_it(fraction: float, steepness: float) -> None:
    fit = SigmoidFit(0.2, 0.7, steepness, 2542.0, 0.0)
    score = float(fit.predict(fit.compute_at_gain(fraction)))
    assert (score - 0.2) / 0.5 == pytest.approx(fraction)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, math.nan])
def test_a_gain_that_is_never_reached_is_refused(fraction: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        SigmoidFit(0.2, 0.7, 2.0, 100.0, 0.0).compute_at_gain(fraction)


def test_given_parameters_are_kept_and_the_rest_fits_no_worse_than_the_truth() -> None:
    truth = SigmoidFit(0.3, 0.61, 1.92, 2542.0, 0.0)
    curve = curve_of(truth, np.linspace(500, 16_000, 60), noise=0.005)
    fit = Sigmoid(start_score=0.3, asymptote=0.61).fit(curve)
    assert math.isclose(fit.R0, 0.3)
    assert math.isclose(fit.A, 0.61)
    assert fit.rss <= float(((truth.predict(curve.x) - curve.y) ** 2).sum())
    assert (fit.B, fit.C_mid) == pytest.approx((1.92, 2542), rel=0.05)


@pytest.mark.parametrize(
    ("family", "truth"),
    [
        (Sigmoid(robust=True), SigmoidFit(0.3, 0.61, 1.92, 2542.0, 0.0)),
        (PowerLaw(robust=True), PowerLawFit(0.8, 0.5, 0.4, 500.0, 0.0)),
    ],
    ids=["sigmoid", "power law"],
)
def test_a_robust_fit_is_moved_less_by_outliers(family: Sigmoid | PowerLaw, truth: SigmoidFit | PowerLawFit) -> None:
    curve = curve_of(truth, np.linspace(500, 16_000, 60), noise=0.004)
    spoiled = curve.y.copy()
    spoiled[[20, 41, 55]] = 0.05
    with_outliers = Curve.of("spoiled", curve.x, spoiled)
    robust, plain = family.fit(with_outliers), type(family)().fit(with_outliers)
    error, plain_error = (np.abs(fit.predict(curve.x) - truth.predict(curve.x)).max() for fit in (robust, plain))
    assert error < 0.01
    assert error < plain_error / 2
    assert robust.rss >= plain.rss


@given(asymptote=st.floats(0.6, 1), exponent=st.floats(0.1, 3), gap=st.floats(0.1, 0.5))
@settings(max_examples=25, deadline=None)
def test_a_power_law_without_noise_is_recovered(asymptote: float, exponent: float, gap: float) -> None:
    x = np.geomspace(50, 5e4, 40)
    y = asymptote - gap * (x / 50) ** -exponent
    fit = PowerLaw().fit(Curve.of("power", np.append(0, x), np.append(0.01, y)))
    assert fit.parameters == pytest.approx({"A": asymptote, "B": exponent, "D": gap * 50**exponent}, rel=1e-4)
    assert fit.predict(x) == pytest.approx(y)


def test_the_power_law_misses_the_ceiling_of_a_sigmoid_as_published() -> None:
    # ScaleRL's 8B run with a batch of 2048, A = 0.645: the power law gave 1.0 from 1.5k-50k GPU-hours, 0.74 from 5k on.
    run = SigmoidFit(0.3, 0.645, 1.7, 10_909.0, 0.0)
    asymptotes = [PowerLaw().fit(curve_of(run, np.linspace(start, 5e4, 40))).A for start in (1500, 5000)]
    assert asymptotes[0] == pytest.approx(1.0)
    assert 0.70 < asymptotes[1] < 0.85


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_a_sigmoid_fit_does_not_depend_on_the_unit_of_unbounded_scores(scale: float) -> None:
    truth = SigmoidFit(-3.0, 5.0, 1.5, 300.0, 0.0)
    x = np.geomspace(10, 1e4, 30)
    fit = Sigmoid().fit(Curve.of("reward", x, scale * truth.predict(x)))
    assert (fit.R0 / scale, fit.A / scale, fit.B, fit.C_mid) == pytest.approx((-3, 5, 1.5, 300), rel=1e-4)


# What every family of curves keeps to

anything = st.floats(allow_nan=True, allow_infinity=True, width=64)
points = st.integers(0, 12).flatmap(
    lambda size: st.tuples(
        arrays(float, size, elements=anything | st.floats(0, 1e4)),
        arrays(float, size, elements=anything | st.floats(0, 1)),
    )
)


@pytest.mark.parametrize("family", CURVE_FAMILIES, ids=LABELS)
@given(points=points)
@settings(max_examples=40, deadline=None)
def test_any_curve_gives_finite_predictions_or_an_error(
    family: Family[Curve], points: tuple[np.ndarray, np.ndarray]
) -> None:
    curve = Curve.of("arbitrary", *points)
    try:
        fit = family.fit(curve)
    except InputError:
        return
    assert not any(math.isnan(value) for value in fit.parameters.values())
    assert fit.rss >= 0
    assert np.all(np.isfinite(fit.predict(curve.x[curve.x > 0])))


def test_parameters_without_effect_do_not_spoil_the_fit() -> None:
    # Found by random search: scipy's trust region divides 0 by 0 on it.
    x = [5e-324, 5e-324, 5e-324, 1e149, 2, 3, 7, 3, 1, 0, 3, 1, 5e-324, 3]
    y = [
        0.49999469025388144,
        0.5000003500235247,
        0.5000004595981954,
        0.499996112110158,
        0.5000006470728398,
        0.500002933566954,
        0.5000010377485392,
        0.4999952695615954,
        0.49999038482299096,
        0.49999882178203386,
        0.5000007480143254,
        0.4999988163030409,
        0.4999980504869828,
        0.4999968530851376,
    ]
    curve = Curve.of("extreme", x, y)
    fit = Sigmoid().fit(curve)
    assert fit.rss <= float(((curve.y - curve.y.mean()) ** 2).sum()) * (1 + 1e-9)


@pytest.mark.parametrize("family", CURVE_FAMILIES, ids=LABELS)
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([], [], "0 distinct x"),
        ([100.0], [0.5], "1 distinct x"),
        ([5.0] * 9, np.linspace(0, 1, 9), "1 distinct x"),
        (np.arange(1, 9), [0.5] * 8, "the score 0.5 everywhere"),
        (np.arange(1, 9), [0.0] * 8, "the score 0 everywhere"),
    ],
)
def test_a_degenerate_curve_is_refused_with_what_is_missing(
    family: Family[Curve], x: list[float], y: list[float], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        family.fit(Curve.of("degenerate", x, y))


@pytest.mark.parametrize("family", CURVE_FAMILIES, ids=LABELS)
def test_prediction_below_zero_compute_is_refused(family: Family[Curve]) -> None:
    fit = family.fit(curve_of(SigmoidFit(0.3, 0.61, 1.92, 2542.0, 0.0), np.linspace(100, 9000, 20)))
    with pytest.raises(InputError, match="negative"):
        fit.predict([100.0, -1.0])


@pytest.mark.parametrize("given", [math.nan, math.inf])
def test_a_given_parameter_that_is_not_a_number_is_refused(given: float) -> None:
    curve = curve_of(SigmoidFit(0.3, 0.61, 1.92, 2542.0, 0.0), np.linspace(100, 9000, 20))
    with pytest.raises(InputError, match="finite"):
        Sigmoid(asymptote=given).fit(curve)


def test_laws_without_a_start_refuse_to_predict_it() -> None:
    laws = [PowerLawFit(0.8, 0.5, 0.4, 500.0, 0.0), OptimalGroupFit(EASY, 0.0)]
    for law in laws:
        with pytest.raises(InputError, match="compute 0"):
            law.predict([0.0, 1.0])
    with pytest.raises(InputError, match="x = 0"):
        PUBLISHED_SIZES.scores(7e9, 0.0)


def test_a_curve_that_was_not_cleaned_is_refused() -> None:
    with pytest.raises(InputError, match="not finite"):
        Sigmoid().fit(Curve("raw", np.arange(1.0, 9.0), np.full(8, np.nan), True))
