"""What every family of the literature offers, and the checks that they share."""

from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgets.errors import InputError
from planner.curves.curve import Curve

Array = NDArray[np.float64]
Data_contra = TypeVar("Data_contra", contravariant=True)

_SMALLEST_RANGE = 1e-150  # its square is still a normal number
_BOUNDED_REACH, _UNBOUNDED_REACH = 1e4, 10.0  # how many ranges of the scores a start or a ceiling may lie beyond them


class Fitted(Protocol):
    """A family with its parameters, by the literature's names; `rss` is summed over what was fitted."""

    @property
    def parameters(self) -> dict[str, float]:
        """Every parameter, fitted or given."""

    @property
    def rss(self) -> float:
        """The sum of squared residuals."""

    def predict(self, x: ArrayLike) -> Array:
        """Return the values at x; a family of two inputs takes them as pairs in the last axis."""


class Family(Protocol[Data_contra]):
    """A named model that can be fitted to data of one kind, mostly to a curve."""

    @property
    def name(self) -> str:
        """What the literature calls it."""

    def fit(self, data: Data_contra, /) -> Fitted:
        """Return the best fit, or raise InputError where the data cannot give one."""


def compute_values(x: ArrayLike) -> Array:
    """Return x as an array, having checked that every value is a compute: at least 0 and not NaN."""
    values = np.asarray(x, dtype=float)
    if not bool(np.all(values >= 0)):
        raise InputError("x to predict at holds negative values or NaN: give a compute of at least 0")
    return values


def require_variation(curve: Curve, family: str, distinct: int) -> None:
    """Raise InputError unless a curve has so many distinct x and scores that differ."""
    if not (np.all(np.isfinite(curve.x)) and np.all(np.isfinite(curve.y))):
        raise InputError(f"curve '{curve.name}' holds values that are not finite: make it with Curve.of")
    if (have := np.unique(curve.x).size) < distinct:
        raise InputError(
            f"curve '{curve.name}' has {have} distinct x values that can be used: the {family} needs {distinct}; "
            "evaluate more often or train longer"
        )
    scale = 1.0 if curve.bounded else float(np.abs(curve.y).max())
    if float(np.ptp(curve.y)) <= max(_SMALLEST_RANGE, 1e-12 * scale):
        raise InputError(
            f"curve '{curve.name}' has the score {curve.y[0]:g} everywhere: the {family} needs scores that change"
        )


def score_limits(curve: Curve) -> tuple[float, float]:
    """Return where a start or a ceiling may lie: within [0, 1] for bounded scores, else ten ranges around them."""
    low, high = float(curve.y.min()), float(curve.y.max())
    reach = (high - low) * (_BOUNDED_REACH if curve.bounded else _UNBOUNDED_REACH)
    if curve.bounded:
        return max(0.0, low - reach), min(1.0, high + reach)
    return low - reach, high + reach
