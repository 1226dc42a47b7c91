from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate, optimize, stats

from bench import synthetic
from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.fit import CurveFit, cut_before, fit_curves
from planner.curves.mixtures import Mixtures

anything = st.one_of(
    st.floats(),
    st.floats(0, 1),
    st.floats(-3, 3),
    st.sampled_from([0.0, 1.0, 0.5, -1.0, 1e-320, 1e-12, 1e12, 1e149, -1e149, float("nan"), float("inf")]),
)
positive = st.one_of(
    st.floats(0, exclude_min=True, allow_infinity=False), st.floats(1e-3, 1e3), st.sampled_from([5e-324, 1.0, 1e308])
)


@st.composite
def raw_curves(draw):
    """x, y, whether bounded, standard errors or None: whatever a file may hold."""
    size = draw(st.one_of(st.integers(1, 12), st.integers(1, 300)))
    x = draw(st.one_of(hnp.arrays(float, size, elements=anything), st.just(np.arange(size, dtype=float))))
    y = draw(hnp.arrays(float, size, elements=draw(st.sampled_from([anything, st.floats(0, 1), st.floats(-50, 50)]))))
    errors = draw(st.none() | hnp.arrays(float, size, elements=anything))
    return x, y, draw(st.sampled_from([None, True, False])), errors


def numbers(fit: CurveFit) -> list[float]:
    intervals = [value for interval in fit.parameters.values() for value in astuple(interval)]
    return [*intervals, fit.noise_sd, *(value for prediction in fit.predictions for value in astuple(prediction))]


def predicted(fit: CurveFit) -> np.ndarray:
    return np.array([(each.mean, each.low, each.high) for each in fit.predictions])


def assert_equal_fits(one: CurveFit, other: CurveFit) -> None:
    for name in ("curve", "used_points", "verdict", "notes"):
        assert getattr(one, name) == getattr(other, name)
    np.testing.assert_allclose(numbers(one), numbers(other), rtol=1e-6, atol=1e-9)


@given(raw_curves(), st.lists(positive, max_size=3), st.sampled_from([0.5, 0.9, 0.999]))
def test_arbitrary_arrays_give_finite_ordered_numbers_or_an_input_error(raw, at, level):
    x, y, bounded, errors = raw
    try:
        curve = Curve.of("any", x, y, bounded=bounded, standard_errors=errors)
        (fit,) = fit_curves([curve], [at], level=level)
    except InputError:
        return
    assert np.all(np.isfinite(numbers(fit)))
    assert fit.noise_sd > 0
    for interval in fit.parameters.values():
        assert interval.low <= interval.median <= interval.high
    for prediction, wanted in zip(fit.predictions, at, strict=True):
        assert prediction.x == wanted
        assert prediction.low <= prediction.mean <= prediction.high
        if curve.bounded:
            assert prediction.low >= 0
            assert prediction.high <= 1


def some_curves(count: int, seed: int = 0) -> list[Curve]:
    rng = np.random.default_rng(seed)
    shapes = sorted(synthetic.SHAPES)
    return [synthetic.draw(shapes[i % len(shapes)], rng).curve for i in range(count)]


def targets(curves: list[Curve]) -> list[list[float]]:
    return [[float(curve.x[-1]) * factor for factor in (0.5, 1.0, 3.0)] for curve in curves]


@given(st.permutations(range(6)), st.integers(0, 2**32))
@settings(max_examples=12)
def test_a_curve_is_fitted_alike_in_any_company(order, seed):
    curves = some_curves(6, seed)
    together = fit_curves([curves[i] for i in order], targets([curves[i] for i in order]))
    for i, fit in zip(order, together, strict=True):
        (alone,) = fit_curves([curves[i]], targets([curves[i]]))
        assert_equal_fits(fit, alone)


@st.composite
def ragged(draw):
    """x and y of a noisy rise; x is ragged, so that rounding puts no point into another bin."""
    rng, size = np.random.default_rng(draw(st.integers(0, 2**32))), draw(st.integers(6, 60))
    x = np.cumsum(rng.uniform(0.1, 1, size))
    y = 1 / (1 + (0.3 * x[-1] / x) ** 1.7) + 0.03 * rng.normal(size=size)
    return x, y


@given(ragged(), st.floats(0.01, 1000), st.floats(-50, 50))
@settings(max_examples=40)
def test_predictions_move_with_the_scale_of_the_scores(points, factor, offset):
    x, y = points
    at = [0.5 * x[-1], x[-1], 4 * x[-1]]
    (fit,) = fit_curves([Curve.of("c", x, y, bounded=False)], [at])
    (moved,) = fit_curves([Curve.of("c", x, factor * (y + offset), bounded=False)], [at])
    np.testing.assert_allclose(predicted(moved) / factor - offset, predicted(fit), atol=1e-6)
    assert moved.noise_sd == pytest.approx(factor * fit.noise_sd, rel=1e-6)
    for name in ("R0", "A"):
        np.testing.assert_allclose(
            np.array(astuple(moved.parameters[name])) / factor - offset, astuple(fit.parameters[name]), atol=1e-6
        )
    np.testing.assert_allclose(astuple(moved.parameters["B"]), astuple(fit.parameters["B"]), rtol=1e-6)
    assert moved.verdict == fit.verdict


@given(ragged(), st.floats(1e-6, 1e6), st.booleans())
@settings(max_examples=40)
def test_predictions_do_not_depend_on_the_unit_of_compute(points, factor, bounded):
    x, y = points
    y = np.clip(y, 0, 1)
    at = np.array([0.5 * x[-1], x[-1], 4 * x[-1]])
    (fit,) = fit_curves([Curve.of("c", x, y, bounded=bounded)], [at.tolist()])
    (moved,) = fit_curves([Curve.of("c", factor * x, y, bounded=bounded)], [(factor * at).tolist()])
    np.testing.assert_allclose(predicted(moved), predicted(fit), atol=1e-6)
    np.testing.assert_allclose(
        astuple(moved.parameters["C_mid"]), factor * np.array(astuple(fit.parameters["C_mid"])), rtol=1e-6
    )
    assert moved.verdict == fit.verdict


def mean_width(fits: list[CurveFit]) -> float:
    return float(np.mean([fit.predictions[0].high - fit.predictions[0].low for fit in fits]))


@pytest.mark.parametrize("shape", ["sigmoid", "saturating", "power-law", "log-linear"])
def test_more_of_the_same_curves_narrows_the_intervals(shape):
    rng = np.random.default_rng(7)
    curves = [synthetic.draw(shape, rng).curve for _ in range(60)]
    at = [[float(curve.x[-1])] for curve in curves]
    widths = [mean_width(fit_curves([c.first_fraction(part) for c in curves], at)) for part in (0.1, 0.25, 0.5, 1.0)]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.5 * widths[0]


def test_a_higher_level_gives_a_wider_interval_about_the_same_median():
    curves = some_curves(12)
    narrow, wide = (fit_curves(curves, targets(curves), level=level) for level in (0.5, 0.95))
    for one, other in zip(narrow, wide, strict=True):
        assert {each.level for each in one.predictions} == {0.5}
        assert {each.level for each in other.predictions} == {0.95}
        for inner, outer in zip(one.predictions, other.predictions, strict=True):
            assert outer.low <= inner.low <= inner.high <= outer.high
        assert one.parameters["A"].median == other.parameters["A"].median


def test_parameters_of_a_clean_sigmoid_are_found():
    x = np.arange(0, 401)
    with np.errstate(divide="ignore"):
        mean = 0.2 + 0.5 / (1 + (40 / x) ** 1.8)
    (fit,) = fit_curves([Curve.of("c", x, mean + 0.01 * np.random.default_rng(0).normal(size=x.size))], [[800.0]])
    assert fit.used_points == 401
    for name, truth in (("R0", 0.2), ("A", 0.7), ("B", 1.8), ("C_mid", 40.0)):
        interval = fit.parameters[name]
        assert interval.low <= truth <= interval.high, name
    assert fit.parameters["A"].median == pytest.approx(0.7, abs=0.03)
    assert fit.parameters["C_mid"].median == pytest.approx(40, rel=0.35)
    assert fit.predictions[0].mean == pytest.approx(0.7, abs=0.03)
    assert fit.noise_sd == pytest.approx(0.01, rel=0.15)


def test_predictions_come_as_asked_for_with_the_notes_of_the_curve():
    curve = Curve.of("c", [3, 1, 2], [0.1, 0.2, 0.3])
    fits = fit_curves([curve] * 3, [[], [30.0], [7.0, 2.0, 7.0]])
    assert [[each.x for each in fit.predictions] for fit in fits] == [[], [30.0], [7.0, 2.0, 7.0]]
    assert fits[2].predictions[0] == fits[2].predictions[2]
    assert fits[0].notes == curve.notes == ("points sorted by x",)
    assert fit_curves([curve])[0].predictions == ()
    assert fit_curves([]) == []


def test_a_curve_without_a_point_after_the_start_cannot_be_fitted():
    with pytest.raises(InputError, match="curve 'c' has no usable point at positive compute"):
        fit_curves([Curve.of("c", [], [])])


@pytest.mark.parametrize("x", [0.0, 1.0, 37.5, 200.0])
def test_cutting_keeps_the_points_from_x_on_and_the_one_before_training(x):
    curve = Curve.of("c", np.arange(201.0), np.arange(201.0) / 400)
    assert cut_before(curve, x).x.tolist() == [0.0, *(value for value in range(1, 201) if value >= x)]


def test_what_was_cut_is_noted_and_standard_errors_are_cut_along():
    curve = Curve.of("c", [2, 0, 1], [0.3, 0.1, 7.0], standard_errors=[0.03, 0.01, 0.02])
    cut = cut_before(curve, 1.5)
    assert cut.notes == ("points sorted by x", "1 points before x = 1.5 left out")
    assert (cut.standard_errors.tolist(), cut.bounded) == ([0.01, 0.03], False)
    assert cut_before(curve, 0.5).notes == ("points sorted by x",)


@pytest.mark.parametrize(
    ("x", "message"), [([0, 1, 2], "leaves no point of 3; the last lies at 2"), ([0], "of 1"), ([], "of 0")]
)
def test_a_cut_that_leaves_nothing_at_positive_compute_is_refused(x, message):
    with pytest.raises(InputError, match=f"cutting curve 'c' before 5 {'' if x[1:] else '.*'}{message}"):
        cut_before(Curve.of("c", x, np.full(len(x), 0.5)), 5)


UNBOUNDED = (-np.inf, np.inf)


@st.composite
def rows(draw, bounds=(UNBOUNDED, (0.0, 1.0), (0.0, np.inf), (-np.inf, 1.0))):
    """One mixture: weights, means, sds and bounds."""
    size = draw(st.integers(1, 5))
    weight = np.array(draw(st.lists(st.floats(0.01, 1), min_size=size, max_size=size)))
    mean = np.array(draw(st.lists(st.floats(-1, 2), min_size=size, max_size=size)))
    sd = np.array(draw(st.lists(st.floats(0.01, 1), min_size=size, max_size=size)))
    return weight / weight.sum(), mean, sd, draw(st.sampled_from(bounds))


def mixture(row) -> Mixtures:
    weight, mean, sd, (low, high) = row
    return Mixtures(weight[None], mean[None], sd[None], np.array([low]), np.array([high]))


def scipy_cdf(row, value: float) -> float:
    weight, mean, sd, _ = row
    return float(weight @ stats.norm.cdf(value, mean, sd))


def span(row) -> tuple[float, float]:
    _, mean, sd, (low, high) = row
    return max(low, float((mean - 12 * sd).min())), min(high, float((mean + 12 * sd).max()))


@given(rows(), st.floats(-3, 4))
def test_cdf_is_that_of_the_normals_within_the_bounds(row, value):
    low, high = row[3]
    expected = 0.0 if value < low else 1.0 if value >= high else scipy_cdf(row, value)
    assert mixture(row).cdf(np.array([value]))[0] == pytest.approx(expected, abs=1e-12)


@given(rows(), st.floats(0.001, 0.999))
def test_quantile_is_where_the_cdf_reaches_the_level(row, level):
    low, high = row[3]
    of_components = stats.norm.ppf(level, row[1], row[2])
    below, above = float(of_components.min()), float(of_components.max())
    exact = optimize.brentq(lambda value: scipy_cdf(row, value) - level, below - 1e-9, above + 1e-9)
    # Between a narrow component and a far one the search does no better than to halve the distance at every step.
    found = mixture(row).quantile(level)[0]
    assert found == pytest.approx(np.clip(exact, low, high), abs=(above - below) / 2**9 + 1e-9)
    assert low <= found <= mixture(row).quantile((1 + level) / 2)[0] <= high


@given(rows())
def test_average_counts_what_lies_beyond_a_bound_at_the_bound(row):
    # E[clip(X)] = b + ∫ (1 − F) over [b, t], as F is 0 below b and 1 from t on.
    bottom, top = span(row)
    if top <= bottom:
        expected = float(np.clip(row[1][0], *row[3]))
    else:
        grid = np.linspace(bottom, top, 20_001)
        survival = 1 - (row[0] * stats.norm.cdf((grid[:, None] - row[1]) / row[2])).sum(axis=1)
        expected = bottom + float(integrate.simpson(survival, x=grid))
    assert mixture(row).average()[0] == pytest.approx(expected, abs=1e-5)
