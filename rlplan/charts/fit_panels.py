"""What is drawn of fitted curves and laws: the points, the band of the fit, the window, the cut, the predictions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.curves.curve import Curve, Vector
from planner.curves.families import Law
from planner.curves.posterior import Posterior, over_chunks
from rlplan.actions.fitting import Fit, Fits
from rlplan.actions.law_fitting import FittedLaws, LawFit
from rlplan.charts.thinning import FEWEST, thinned

MOST_PANELS = 24
MOST_POINTS = 1_500  # a panel; more only make a file large
BAND_POINTS = 60
LONGEST_NAME = 40
LOGARITHMIC_FROM = 10.0  # times the first x, from which on x is drawn on a log axis
NOTHING = Curve("none", np.empty(0), np.empty(0), True)


@dataclass(frozen=True)
class Band:
    """The median and a central interval of the mean score, along x."""

    x: Vector
    median: Vector
    low: Vector
    high: Vector


class Mark(NamedTuple):
    """A prediction as it is drawn."""

    x: float
    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Line:
    """A curve, or one series of a law: its points, and the band through them where there is one."""

    name: str
    used: Curve
    unused: Curve
    band: Band | None
    predictions: tuple[Mark, ...] = ()
    observed: tuple[tuple[float, float], ...] = ()

    @property
    def x(self) -> Vector:
        """Every x above 0 that is drawn."""
        marks = np.array([mark.x for mark in self.predictions])
        x = np.concatenate([self.used.x, self.unused.x, marks, *([self.band.x] if self.band else [])])
        return np.asarray(x[x > 0])

    @property
    def y(self) -> Vector:
        """Every score that is drawn, and the ends of intervals."""
        ends = np.array([end for mark in self.predictions for end in (mark.low, mark.high)])
        bands = [self.band.low, self.band.high] if self.band else []
        return np.concatenate([self.used.y, self.unused.y, ends, *bands])


@dataclass(frozen=True)
class Panel:
    """One picture of a curve or a law; `window` and `cut` are None where they leave nothing out."""

    title: str
    x_name: str
    y_name: str
    level: float
    lines: tuple[Line, ...]
    window: float | None = None
    cut: float | None = None
    logarithmic_y: bool = False

    @property
    def logarithmic(self) -> bool:
        """Whether x spans so much that a linear axis would hide its beginning."""
        positive = self._x()
        return bool(positive.max() >= LOGARITHMIC_FROM * positive.min())

    @property
    def leftmost(self) -> float:
        """Where scores from before training are drawn: at 0, or left of all others where 0 has no place."""
        return 0.7 * float(self._x().min()) if self.logarithmic else 0.0

    @property
    def height(self) -> tuple[float, float]:
        """The lowest and the highest score that is drawn."""
        drawn = np.concatenate([line.y for line in self.lines])
        return float(drawn.min()), float(drawn.max())

    def _x(self) -> Vector:
        found = np.concatenate([line.x for line in self.lines])
        return found if found.size else np.ones(1)


def curve_panels(fits: Fits) -> list[Panel]:
    """Return what is drawn of the first curves."""
    curves = fits.curves[:MOST_PANELS]
    farthest = [max(float(curve.used.x[-1]), *(each.x for each in curve.fit.predictions)) for curve in curves]
    bands = _bands([curve.used for curve in curves], farthest, fits.level)
    return [_curve_panel(curve, band, fits.level) for curve, band in zip(curves, bands, strict=True)]


def law_panels(fits: FittedLaws) -> list[Panel]:
    """Return what is drawn of the first fits of a law."""
    return [_law_panel(fitted, fits.level) for fitted in fits.fits[:MOST_PANELS]]


def _curve_panel(curve: Fit, band: Band, level: float) -> Panel:
    whole = curve.whole
    is_used = (whole.x <= curve.used.x[-1]) & ((whole.x >= curve.cut) | (whole.x == 0))
    observed = zip(curve.fit.predictions, curve.observed, strict=True)
    line = Line(
        name="",
        used=_thinned(_only(whole, is_used), MOST_POINTS),
        unused=_thinned(_only(whole, ~is_used), MOST_POINTS),
        band=band,
        predictions=tuple(Mark(each.x, each.mean, each.low, each.high) for each in curve.fit.predictions),
        observed=tuple((prediction.x, came) for prediction, came in observed if came is not None),
    )
    return Panel(
        title=f"{_short(curve.fit.curve)}: {curve.fit.verdict.value}",
        x_name=whole.x_name,
        y_name=whole.y_name,
        level=level,
        lines=(line,),
        window=float(curve.used.x[-1]) if curve.used.x[-1] < whole.x[-1] else None,
        cut=curve.cut if np.any((whole.x > 0) & (whole.x < curve.cut)) else None,
    )


def _law_panel(fitted: LawFit, level: float) -> Panel:
    fit = fitted.fit
    first = next(iter(fit.points.values()))
    over_n = fit.law is Law.GROUP_SIZE
    y_name = "best rollouts per prompt, n*" if over_n else first.y_name
    caveat = "" if fit.identified else ": this table cannot tell"
    most = max(FEWEST, MOST_POINTS // len(fit.points))
    lines = tuple(_law_line(fitted, series, level, most) for series in fit.points)
    return Panel(f"{_short(fit.name)}{caveat}", first.x_name, y_name, level, lines, logarithmic_y=over_n)


def _law_line(fitted: LawFit, series: str, level: float, most: int) -> Line:
    points = fitted.fit.points[series]
    marks = tuple(Mark(e.x, e.median, e.low, e.high) for e in fitted.predictions if e.series == series)
    positive = np.concatenate([points.x[points.x > 0], [mark.x for mark in marks]])
    band = None
    if fitted.fit.draws is not None and positive.size:
        places = _places(np.array([positive.min()]), np.array([positive.max()]))[0]
        band = Band(places, *fitted.fit.at(series, places, level))
    shown = NOTHING if fitted.fit.law is Law.GROUP_SIZE else _thinned(points, most)
    return Line(series, shown, NOTHING, band, marks)


def _only(curve: Curve, rows: NDArray[np.bool_]) -> Curve:
    return replace(curve, x=curve.x[rows], y=curve.y[rows], standard_errors=None)


def _short(name: str) -> str:
    """Leave out the middle of a name that is too long for its panel."""
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]}…{name[-half:]}"


def _thinned(curve: Curve, most: int) -> Curve:
    """Leave out points that would not be seen: of a long curve both ends stay, and what is highest and lowest."""
    return replace(curve, x=curve.x[(rows := thinned(curve.x, curve.y, most))], y=curve.y[rows], standard_errors=None)


def _bands(curves: Sequence[Curve], until: Sequence[float], level: float) -> list[Band]:
    """Evaluate every curve's posterior from its first point on: the first place of all at once, then the next."""
    first = np.array([float(curve.x[curve.x > 0][0]) for curve in curves])
    last = np.maximum(np.asarray(until), first * 1.01)
    places = _places(first, last)
    levels = (0.5, (1 - level) / 2, (1 + level) / 2)

    def quantiles(rows: slice, posterior: Posterior) -> list[Vector]:
        at_each = [posterior.predict(places[rows, number]) for number in range(places.shape[1])]
        return [np.stack([mixtures.quantile(part) for mixtures in at_each], axis=1) for part in levels]

    chunks = over_chunks(list(curves), quantiles)
    median, low, high = (np.concatenate([chunk[part] for chunk in chunks]) for part in range(3))
    return [Band(*parts) for parts in zip(places, median, low, high, strict=True)]


def _places(first: Vector, last: Vector) -> Vector:
    """Return places from the first to the last x, half even in log x and half in x: a line is smooth on either axis."""
    even = np.linspace(0, 1, BAND_POINTS // 2)
    along_log = first[:, None] * (last / first)[:, None] ** even
    along = first[:, None] + (last - first)[:, None] * even
    return np.sort(np.concatenate([along_log, along], axis=1), axis=1)
