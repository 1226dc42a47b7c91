"""The published grid search for the sigmoid, as it is described: the peer to measure against, not a fit to use."""

import math
import warnings
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.optimize import OptimizeWarning, curve_fit

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.families.base import Array, require_variation
from planner.curves.families.sigmoid import SigmoidFit


def _published_asymptotes() -> Array:
    return np.linspace(0.45, 0.80, 71)


@dataclass(frozen=True, eq=False)
class PublishedGridFit:
    """A and C_mid on a grid, B by `curve_fit` from its default start, least squares win (arXiv 2510.13786, A.5–A.7).

    `midpoints` values of C_mid lie evenly between `midpoint_bounds`, in the unit of x (GPU-hours in the study). R0 is
    `start_score`, or the curve's first score; points before `skip_until` are left out, as the study leaves out the
    first 1,500 GPU-hours. A true A outside `asymptotes` is clipped: so it was published.
    """

    asymptotes: Array = field(default_factory=_published_asymptotes)
    midpoints: int = 100
    midpoint_bounds: tuple[float, float] = (100.0, 40_000.0)
    start_score: float | None = None
    skip_until: float = 0.0
    name: ClassVar[str] = "published grid fit"

    def fit(self, curve: Curve, /) -> SigmoidFit:
        """Return the grid's best cell; `curve_fit` runs once in each (7,100 times by default)."""
        low, high = self.midpoint_bounds
        if not (0 < low <= high < math.inf) or self.midpoints < 1 or not np.size(self.asymptotes):
            raise InputError(
                f"a grid of {np.size(self.asymptotes)} asymptotes and {self.midpoints} midpoints from {low} to {high}: "
                "give at least one of each, and bounds above 0 in ascending order"
            )
        kept = curve.x >= self.skip_until
        used = Curve(curve.name, curve.x[kept], curve.y[kept], curve.bounded)
        require_variation(used, "published grid fit", 3)
        start = float(curve.y[0]) if self.start_score is None else self.start_score
        if not math.isfinite(start):
            raise InputError(f"start score {start}: give a finite score, or leave it out to take the curve's first")
        cells = [
            cell
            for asymptote in self.asymptotes.tolist()
            for midpoint in np.linspace(low, high, self.midpoints).tolist()
            if (cell := _cell(used, start, asymptote, midpoint)) is not None
        ]
        if not cells:
            raise InputError(f"curve '{curve.name}': curve_fit found no B in any cell of the grid")
        return min(cells, key=lambda cell: cell.rss)


def _cell(curve: Curve, start: float, asymptote: float, midpoint: float) -> SigmoidFit | None:
    """Fit B alone, or return None where `curve_fit` gives up."""

    def sigmoid(x: Array, steepness: float) -> Array:
        return np.asarray(start + (asymptote - start) / (1 + (midpoint / x) ** steepness))

    with np.errstate(all="ignore"), warnings.catch_warnings():
        # It warns where B has no effect (A = R0) and its variance is therefore not known; that is not used.
        warnings.simplefilter("ignore", OptimizeWarning)
        try:
            found, _ = curve_fit(sigmoid, curve.x, curve.y)
        except RuntimeError:
            return None
        rss = float(((sigmoid(curve.x, found[0]) - curve.y) ** 2).sum())
    steepness = float(found[0])
    return SigmoidFit(start, asymptote, steepness, midpoint, rss) if math.isfinite(rss) and steepness > 0 else None
