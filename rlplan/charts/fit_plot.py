"""Draws fitted curves: the points, the band of the fit, the window, the cut, the predictions and what came."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve, Vector
from planner.curves.fitting import Prediction
from planner.curves.posterior import Posterior, over_chunks
from rlplan.actions.fitting import Fits, FittedCurve

BLUE, ORANGE, GREEN, GREY = "#1f6fb4", "#d1600a", "#2a8a3e", "#9a9a9a"
MOST_PANELS = 24
MOST_POINTS = 1_500  # a panel; more only make a file large
BAND_POINTS = 60
LONGEST_NAME = 40
LOGARITHMIC_FROM = 10.0  # times the first x, from which on x is drawn on a log axis


@dataclass(frozen=True)
class Band:
    """The median and a central interval of the mean score, along x."""

    x: Vector
    median: Vector
    low: Vector
    high: Vector


@dataclass(frozen=True)
class Panel:
    """All that is drawn of one curve; `window` and `cut` are None where they leave nothing out."""

    title: str
    x_name: str
    y_name: str
    level: float
    used: Curve
    unused: Curve
    band: Band
    window: float | None
    cut: float | None
    predictions: tuple[Prediction, ...]
    observed: tuple[tuple[float, float], ...]

    @property
    def logarithmic(self) -> bool:
        """Whether x spans so much that a linear axis would hide its beginning."""
        positive = np.concatenate([self.used.x, self.unused.x, self.band.x])
        positive = positive[positive > 0]
        return bool(positive.max() >= LOGARITHMIC_FROM * positive.min())

    @property
    def leftmost(self) -> float:
        """Where scores from before training are drawn: at 0, or left of all others where 0 has no place."""
        positive = np.concatenate([self.used.x, self.unused.x, self.band.x])
        return 0.7 * float(positive[positive > 0].min()) if self.logarithmic else 0.0

    @property
    def height(self) -> tuple[float, float]:
        """The lowest and the highest score that is drawn."""
        ends = [end for each in self.predictions for end in (each.low, each.high)]
        drawn = np.concatenate([self.used.y, self.unused.y, self.band.low, self.band.high, ends])
        return float(drawn.min()), float(drawn.max())


def write_plot(fits: Fits, path: Path) -> str:
    """Draw the first curves into an HTML or PNG file, and return a line that says so."""
    drawn = panels(fits.curves[:MOST_PANELS], fits.level)
    try:
        if path.suffix.casefold() == ".png":
            from rlplan.charts.fit_picture import write_png  # noqa: PLC0415

            write_png(drawn, path)
        else:
            from rlplan.charts.fit_page import write_html  # noqa: PLC0415

            write_html(drawn, path)
    except OSError as error:
        raise InputError(f"--plot {path} cannot be written: {error.strerror or error}; give another path") from error
    missing = len(fits.curves) - len(drawn)
    return f"drew {path}" + (f": the first {MOST_PANELS} curves, without {missing} more" if missing else "")


def panels(curves: Sequence[FittedCurve], level: float) -> list[Panel]:
    """Return what is drawn of each curve."""
    bands = _bands([curve.used for curve in curves], [_farthest(curve) for curve in curves], level)
    return [_panel(curve, band, level) for curve, band in zip(curves, bands, strict=True)]


def columns(count: int) -> int:
    """Return how many panels stand side by side."""
    return next(wide for wide, most in ((1, 1), (2, 4), (3, 9), (4, MOST_PANELS)) if count <= most)


def _panel(curve: FittedCurve, band: Band, level: float) -> Panel:
    whole = curve.whole
    is_used = (whole.x <= curve.used.x[-1]) & ((whole.x >= curve.cut) | (whole.x == 0))
    shown = _thinned(whole.x)
    came = [
        (prediction.x, value)
        for prediction, value in zip(curve.fit.predictions, curve.observed, strict=True)
        if value is not None
    ]
    return Panel(
        title=f"{_short(curve.fit.curve)}: {curve.fit.verdict.value}",
        x_name=curve.whole.x_name,
        y_name=curve.whole.y_name,
        level=level,
        used=Curve("used", whole.x[is_used & shown], whole.y[is_used & shown], whole.bounded),
        unused=Curve("unused", whole.x[~is_used & shown], whole.y[~is_used & shown], whole.bounded),
        band=band,
        window=float(curve.used.x[-1]) if curve.used.x[-1] < whole.x[-1] else None,
        cut=curve.cut if np.any((whole.x > 0) & (whole.x < curve.cut)) else None,
        predictions=curve.fit.predictions,
        observed=tuple(came),
    )


def _short(name: str) -> str:
    """Leave out the middle of a name that is too long for its panel."""
    half = LONGEST_NAME // 2
    return name if len(name) <= LONGEST_NAME else f"{name[:half]}…{name[-half:]}"


def _thinned(x: Vector) -> np.ndarray:
    """Choose points evenly by rank and evenly in log x, so that neither end of a long curve goes missing."""
    if x.size <= MOST_POINTS:
        return np.ones(x.size, dtype=bool)
    chosen = np.zeros(x.size, dtype=bool)
    chosen[np.linspace(0, x.size - 1, 2 * MOST_POINTS // 3).astype(int)] = True
    positive = x[x > 0]
    places = np.geomspace(positive[0], positive[-1], MOST_POINTS // 3)
    chosen[np.minimum(np.searchsorted(x, places), x.size - 1)] = True
    return chosen


def _farthest(curve: FittedCurve) -> float:
    return max(float(curve.used.x[-1]), *(prediction.x for prediction in curve.fit.predictions))


def _bands(curves: Sequence[Curve], until: Sequence[float], level: float) -> list[Band]:
    """Evaluate every curve's posterior from its first point on: the first place of all curves at once, then the next.

    Half of the places are even in log x and half in x: the line is smooth on either axis.
    """
    first = np.array([float(curve.x[curve.x > 0][0]) for curve in curves])
    last = np.maximum(np.asarray(until), first * 1.01)
    even = np.linspace(0, 1, BAND_POINTS // 2)
    along_log = first[:, None] * (last / first)[:, None] ** even
    along = first[:, None] + (last - first)[:, None] * even
    places = np.sort(np.concatenate([along_log, along], axis=1), axis=1)
    levels = (0.5, (1 - level) / 2, (1 + level) / 2)

    def quantiles(rows: slice, posterior: Posterior) -> list[Vector]:
        at_each = [posterior.predict(places[rows, number]) for number in range(places.shape[1])]
        return [np.stack([mixtures.quantile(part) for mixtures in at_each], axis=1) for part in levels]

    chunks = over_chunks(list(curves), quantiles)
    median, low, high = (np.concatenate([chunk[part] for chunk in chunks]) for part in range(3))
    return [Band(*parts) for parts in zip(places, median, low, high, strict=True)]
