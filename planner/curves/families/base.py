"""What the laws of the literature share: draws of what a law may be, when data cannot tell, and checks of curves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgets.errors import InputError
from planner.curves.curve import Curve

Array = NDArray[np.float64]

_SMALLEST_RANGE = 1e-150  # its square is still a normal number
_BOUNDED_REACH, _UNBOUNDED_REACH = 1e4, 10.0  # how many ranges of the scores a start or a ceiling may lie beyond them
_MOST_CORRELATED = 0.9
LEVEL = 0.90  # of the intervals that doubts rest on, whatever level was asked for
_VAGUE = 10.0  # times: a positive parameter whose interval is wider is not told
_NEAR_THE_END = 0.02  # of the allowed range, in logs


class CannotTellError(InputError):
    """The data are sound, but there are too few of them, or too little changes, for the law."""


@dataclass(frozen=True, eq=False)
class LawDraws:
    """A law given the data, as draws: of its parameters, and of its values at some x for each series it predicts.

    `doubts` say why the data do not tell what the law is; there are none where they do. `levels` are as in `interval`.
    """

    parameters: dict[str, Array]
    series: dict[str, Callable[[Array], Array]]
    noise_sd: float
    doubts: tuple[str, ...]
    notes: tuple[str, ...] = ()
    levels: Array | None = None


def interval(draws: Array, levels: Array | None, level: float = LEVEL) -> Array:
    """Return the middle of draws and the ends of their interval, over the first axis.

    `levels` say from which level on a profile-likelihood interval holds a draw, and the first draw is the best fit:
    such intervals keep their word where a parameter is half known, and quantiles lean to where there is more room.
    """
    if levels is None:
        return np.asarray(np.quantile(draws, (0.5, (1 - level) / 2, (1 + level) / 2), axis=0))
    inside = draws[levels <= level]
    return np.stack([draws[0], inside.min(axis=0), inside.max(axis=0)])


def vague(
    draws: dict[str, Array], levels: Array | None, allowed: dict[str, tuple[float, float]] | None = None
) -> list[str]:
    """Return a doubt for each positive parameter that spans a factor of ten, or ends where the search does."""
    doubts = []
    for name, values in draws.items():
        _, low, high = (float(each) for each in interval(values, levels))
        first, last = (allowed or {}).get(name, (0.0, np.inf))
        slack = (last / first) ** _NEAR_THE_END if first > 0 and last < np.inf else 1.0
        if low <= first * slack or high >= last / slack:
            end = "up to the end" if high >= last / slack else "from the beginning"
            doubts.append(f"{name} may be anything {end} of what is searched ({low:.3g} to {high:.3g})")
        elif high > _VAGUE * low:
            doubts.append(f"{name} is only known to lie between {low:.3g} and {high:.3g}")
    return doubts


def doubts_of_a_rise(curve: Curve, asymptote: Array, levels: Array, residuals: Array) -> list[str]:
    """Return why a curve does not say where it ends: it has not risen by more than noise, or A may be far above it."""
    effective = effective_points([residuals])
    changes = float(((curve.y - curve.y.mean()) ** 2).sum())
    left = max(float(residuals @ residuals), 1e-12 * changes)
    if effective * np.log(changes / left) < 3 * np.log(max(effective, 2)):
        return ["the scores do not change by more than their noise"]
    _, low, high = (float(each) for each in interval(asymptote, levels))
    tenth = max(1, curve.y.size // 10)
    change = float(curve.y[-tenth:].mean() - curve.y[:tenth].mean())
    if curve.bounded and change < 0:
        return ["the scores fall, and the law is one of learning"]
    seen = abs(change)
    if high - low > seen / 2:
        return [f"A may lie between {low:.3g} and {high:.3g}: that is vaguer than half of the change seen ({seen:.2g})"]
    return []


def effective_points(residuals: Sequence[Array]) -> float:
    """Return how many independent points some series are worth: what lies near its neighbours says less that is new."""
    above = sum(float(each[1:] @ each[:-1]) for each in residuals)
    squares = sum(float(each @ each) for each in residuals)
    correlation = float(np.clip(above / squares if squares > 0 else 0.0, 0.0, _MOST_CORRELATED))
    return sum(each.size for each in residuals) * (1 - correlation) / (1 + correlation)


def size_name(size: float) -> str:
    """Write a number of parameters as models are called: 500M or 1.5B; small numbers stay as they are."""
    for unit, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e4, "k")):
        if size >= unit:
            return f"{size / unit:.4g}{name}"
    return f"{size:.4g}"


def compute_values(x: ArrayLike) -> Array:
    """Return x as an array, having checked that every value is a compute: at least 0 and not NaN."""
    values = np.asarray(x, dtype=float)
    if not bool(np.all(values >= 0)):
        raise InputError("x to predict at holds negative values or NaN: give a compute of at least 0")
    return values


def require_variation(curve: Curve, family: str, distinct: int) -> None:
    """Raise CannotTellError unless a curve has so many distinct x and scores that differ."""
    if not (np.all(np.isfinite(curve.x)) and np.all(np.isfinite(curve.y))):
        raise InputError(f"curve '{curve.name}' holds values that are not finite: make it with Curve.of")
    if (have := np.unique(curve.x).size) < distinct:
        raise CannotTellError(
            f"curve '{curve.name}' has {have} distinct x values that can be used: the {family} needs {distinct}; "
            "evaluate more often or train longer"
        )
    scale = 1.0 if curve.bounded else float(np.abs(curve.y).max())
    if float(np.ptp(curve.y)) <= max(_SMALLEST_RANGE, 1e-12 * scale):
        raise CannotTellError(
            f"curve '{curve.name}' has the score {curve.y[0]:g} everywhere: the {family} needs scores that change"
        )


def score_limits(curve: Curve) -> tuple[float, float]:
    """Return where a start or a ceiling may lie: within [0, 1] for bounded scores, else ten ranges around them."""
    low, high = float(curve.y.min()), float(curve.y.max())
    reach = (high - low) * (_BOUNDED_REACH if curve.bounded else _UNBOUNDED_REACH)
    if curve.bounded:
        return max(0.0, low - reach), min(1.0, high + reach)
    return low - reach, high + reach
