"""Fitted curves and laws as charts: their points, the band of the fit, the window, the cut, the predictions."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.curves.curve import Curve, Vector
from planner.curves.laws import Law
from planner.curves.posterior import Posterior, over_chunks
from planner.percent import percent
from rlplan.charts.chart import (
    GOOD,
    MIND,
    QUIET,
    SERIES,
    Chart,
    Trace,
    axis,
    band,
    layout,
    scatter,
    text,
    thinned,
    upright,
)
from rlplan.commands.fit_curves import Fit, Fits
from rlplan.commands.fit_law import FittedLaws, LawFit

MOST_CHARTS = 24
MOST_POINTS = 1_500  # of a chart; more only make a file large
BAND_POINTS = 60
LONGEST_NAME = 40
LOGARITHMIC_FROM = 10.0  # times the first x, from which on a linear axis would hide the beginning
FLOPS = 1e12  # x from which on it counts operations, which only powers of ten can name
HEIGHT = 380  # pixels, with the legend
HOVER = "x %{x:.4~g}<br>%{y:.4f}"

# Along x: places, the median and both ends of the interval of the mean score.
Believed = Sequence[Vector]
Mark = tuple[float, float, float, float]  # x, the middle and both ends of a prediction


def fit_charts(fits: Fits | FittedLaws) -> list[Chart]:
    """Return a chart for each of the first curves, or of the first fits of a law."""
    if isinstance(fits, FittedLaws):
        return [_of_law(fit, fits.level) for fit in fits.fits[:MOST_CHARTS]]
    curves = fits.curves[:MOST_CHARTS]
    bands = zip(*_bands(curves, fits.level), strict=True)
    return [_of_curve(curve, believed, fits.level) for curve, believed in zip(curves, bands, strict=True)]


def _of_curve(curve: Fit, believed: Believed, level: float) -> Chart:
    whole, end = curve.whole, float(curve.used.x[-1])
    used = (whole.x <= end) & ((whole.x >= curve.cut) | (whole.x == 0))
    marks = [(point.x, point.mean, point.low, point.high) for point in curve.fit.predictions]
    x = np.concatenate([whole.x, believed[0], [mark[0] for mark in marks]])
    traces = [*_series(whole, used, believed, marks, x, level)]
    seen = {mark[0]: score for mark, score in zip(marks, curve.observed, strict=True) if score is not None}
    if seen:
        marker = _marker(GOOD, 10, "diamond")
        traces.append(scatter([*seen], [*seen.values()], "markers", HOVER, name="observed", marker=marker))
    shapes = []
    if np.any((whole.x > 0) & (whole.x < curve.cut)):
        shapes.append(upright(curve.cut, dash="dot") | {"name": "cut", "showlegend": True})
    if end < whole.x[-1]:
        shapes.append(upright(end) | {"name": "end of the window", "showlegend": True})
    title = f"{_short(curve.fit.curve)}: {curve.fit.verdict.value}"
    return _chart(title, whole.x_name, whole.y_name, level, traces, x, shapes=shapes)


def _of_law(fit: LawFit, level: float) -> Chart:
    points, over_n = fit.fitted, fit.law is Law.GROUP_SIZE
    marks = [(mark.x, mark.median, mark.low, mark.high) for mark in fit.predictions]
    x = np.concatenate([points.x, [mark[0] for mark in marks]])
    believed: Believed | None = None
    if fit.draws is not None and (x > 0).any():
        places = _places(x[x > 0].min(keepdims=True), x.max(keepdims=True))[0]
        believed = [places, *fit.draws.at(places, level)]
    used = np.full(points.x.size, fill_value=True)
    traces = [*_series(None if over_n else points, used, believed, marks, x, level)]  # points are scores, not n
    title = f"{_short(fit.name)}{'' if fit.identified else ': this table cannot tell'}"
    y_name = "best rollouts per prompt, n*" if over_n else points.y_name
    return _chart(title, points.x_name, y_name, level, traces, x, logarithmic_y=over_n)


def _chart(
    title: str,
    x_name: str,
    y_name: str,
    level: float,
    traces: list[Trace],
    x: Vector,
    *,
    shapes: Sequence[dict[str, object]] = (),
    logarithmic_y: bool = False,
) -> Chart:
    numbers = {"exponentformat": "power"} if x.max(initial=0.0) >= FLOPS else {}
    scales = [{"type": "log" if log else "linear"} for log in (_leftmost(x) > 0, logarithmic_y)]
    figure = {
        "data": traces,
        "layout": layout(
            120,
            shapes=shapes,
            xaxis=axis(text(x_name), **scales[0], **numbers),
            yaxis=axis(text(y_name), **scales[1], **(numbers if logarithmic_y else {})),
        ),
    }
    caption = f"{title}: {y_name} against {x_name}, with the fit's {percent(level)} interval."
    return Chart("fit", title, caption, figure, HEIGHT)


def _series(
    points: Curve | None,
    used: NDArray[np.bool_],
    believed: Believed | None,
    marks: Sequence[Mark],
    x: Vector,
    level: float,
) -> Iterator[Trace]:
    """Draw scores, what is believed of them and predictions, in a chart whose `x` are all that it has."""
    colour, leftmost = SERIES[0], _leftmost(x)
    if believed is not None:
        places, median, low, high = (part.tolist() for part in believed)
        yield band(places, low, high, colour, name=f"{level * 100:g} % band")
    if points is not None:
        # Of a long curve both ends and what is highest and lowest; scores of before training stand at the left.
        kept = np.isin(np.arange(points.y.size), thinned(points.y, MOST_POINTS))
        trained = points.x > 0
        for rows, shade, name in ((trained & ~used, QUIET, "not used"), (trained & used, colour, "used")):
            if (shown := rows & kept).any():
                style = {"name": name, "marker": _marker(shade, 5) | {"opacity": 0.75}}
                yield scatter(points.x[shown], points.y[shown], "markers", HOVER, **style)
        if (shown := ~trained & kept).any():
            shade = colour if used[shown].all() else QUIET
            style = {"name": "before training", "marker": _marker(shade, 10, "triangle-left")}
            yield scatter([leftmost] * int(shown.sum()), points.y[shown], "markers", "%{y:.4f}", **style)
    if believed is not None:
        yield scatter(places, median, "lines", HOVER, name="median of the fit", line={"color": colour, "width": 2})
    if marks:
        at, middle, least, most = (np.array(values) for values in zip(*marks, strict=True))
        error = {"type": "data", "array": most - middle, "arrayminus": middle - least, "color": MIND}
        yield scatter(at, middle, "markers", HOVER, name="prediction", marker=_marker(MIND, 8), error_y=error)


def _marker(colour: str, size: int, symbol: str = "circle") -> dict[str, Any]:
    return {"color": colour, "size": size, "symbol": symbol}


def _leftmost(x: Vector) -> float:
    """Return where scores of before training are drawn: at 0, or left of all others on a log axis."""
    above = x[x > 0]
    return 0.7 * float(above.min()) if above.size and above.max() >= LOGARITHMIC_FROM * above.min() else 0.0


def _short(name: str) -> str:
    """Leave out the middle of a name that is too long for its chart."""
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]}…{name[-half:]}"


def _bands(curves: Sequence[Fit], level: float) -> list[Vector]:
    """Return places along each curve, from its first point on, with what its posterior says there; all at once."""
    first = np.array([float(curve.used.x[curve.used.x > 0][0]) for curve in curves])
    last = [max(float(curve.used.x[-1]), *(point.x for point in curve.fit.predictions)) for curve in curves]
    places = _places(first, np.maximum(last, first * 1.01))
    levels = (0.5, (1 - level) / 2, (1 + level) / 2)

    def quantiles(rows: slice, posterior: Posterior) -> list[Vector]:
        at_each = [posterior.predict(places[rows, number]) for number in range(places.shape[1])]
        return [np.stack([mixtures.quantile(part) for mixtures in at_each], axis=1) for part in levels]

    chunks = over_chunks([curve.used for curve in curves], quantiles)
    return [places, *(np.concatenate([chunk[part] for chunk in chunks]) for part in range(3))]


def _places(first: Vector, last: Vector) -> Vector:
    """Return places from the first to the last x, half even in log x and half in x: a line is smooth on either axis."""
    even = np.linspace(0, 1, BAND_POINTS // 2)
    along_log = first[:, None] * (last / first)[:, None] ** even
    along = first[:, None] + (last - first)[:, None] * even
    return np.sort(np.concatenate([along_log, along], axis=1), axis=1)
