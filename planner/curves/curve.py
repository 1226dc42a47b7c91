"""A learning curve: scores against compute, cleaned of what cannot be fitted."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgets.errors import InputError

Vector = NDArray[np.float64]
LEAST_PASS_RATE = 0.02  # of p(1 − p), so that a score of exactly 0 or 1 is not taken for certain


def pass_rate_variance(score: Vector | float) -> Vector:
    """Return p(1 − p), bounded from below."""
    p = np.clip(score, 0.0, 1.0)
    return np.asarray(np.maximum(p * (1 - p), LEAST_PASS_RATE))


@dataclass(frozen=True, eq=False)
class Curve:
    """Points in ascending x, all finite, x at least 0 (0 is before training); `bounded` scores lie in [0, 1].

    `standard_errors` are those of the scores, where the size of the evaluation is known.
    """

    name: str
    x: Vector = field(repr=False)
    y: Vector = field(repr=False)
    bounded: bool
    standard_errors: Vector | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    x_name: str = "x"
    y_name: str = "score"

    @classmethod
    def of(
        cls,
        name: str,
        x: ArrayLike,
        y: ArrayLike,
        *,
        bounded: bool | None = None,
        standard_errors: ArrayLike | None = None,
    ) -> Self:
        """Sort points, drop those that are not finite or lie at negative x, and note what was done.

        Whether scores are bounded is seen from them unless it is said: all within [0, 1].
        """
        xs, ys = np.asarray(x, dtype=float).ravel(), np.asarray(y, dtype=float).ravel()
        if xs.shape != ys.shape:
            raise InputError(f"curve '{name}' has {xs.size} x values and {ys.size} scores: they must be as many")
        errors = None if standard_errors is None else np.asarray(standard_errors, dtype=float).ravel()
        if errors is not None and errors.shape != ys.shape:
            raise InputError(f"curve '{name}' has {ys.size} scores and {errors.size} standard errors")
        notes = []
        usable = np.isfinite(xs) & np.isfinite(ys) & (np.abs(ys) < 1e150) & (xs < 1e150)
        if errors is not None:
            usable &= np.isfinite(errors) & (errors >= 0)
        if dropped := int((~usable).sum()):
            notes.append(f"{dropped} points dropped: not finite")
        if negative := int((usable & (xs < 0)).sum()):
            notes.append(f"{negative} points dropped: negative x")
            usable &= xs >= 0
        xs, ys = xs[usable], ys[usable]
        if np.any(np.diff(xs) < 0):
            notes.append("points sorted by x")
        order = np.argsort(xs, kind="stable")
        xs, ys = xs[order], ys[order]
        errors = None if errors is None else errors[usable][order]
        within = bool(ys.size and ys.min() >= 0 and ys.max() <= 1)
        if bounded and ys.size and not within:
            raise InputError(
                f"curve '{name}' is said to lie in [0, 1], but its scores go from {ys.min():g} to {ys.max():g}"
            )
        return cls(name, xs, ys, within if bounded is None else bounded, errors, tuple(notes))

    @classmethod
    def joined(cls, runs: Sequence[Self]) -> Self:
        """Return the points of several runs as one curve."""
        x, y = np.concatenate([run.x for run in runs]), np.concatenate([run.y for run in runs])
        together = cls.of(runs[0].name, x, y, bounded=all(run.bounded for run in runs))
        return replace(together, x_name=runs[0].x_name, y_name=runs[0].y_name)

    def evaluated_on(self, answers: int) -> Self:
        """Return the curve with the binomial standard errors of scores that are pass rates over so many answers each.

        p is drawn towards the middle as if one answer more had been right and one wrong: a score of 0 is no certainty.
        """
        if not self.bounded:
            raise InputError(
                f"curve '{self.name}' has scores outside [0, 1]: only pass rates have a binomial error from the number "
                "of answers"
            )
        p = (self.y * answers + 1) / (answers + 2)
        return replace(self, standard_errors=np.sqrt(p * (1 - p) / answers))

    def until(self, x: float) -> Self:
        """Return the points up to an x, inclusive."""
        return self.where(self.x <= x)

    def first_fraction(self, fraction: float) -> Self:
        """Return the points in the first part of the x range, which begins with the first of them."""
        return self.until(float(self.x[0]) + fraction * float(self.x[-1] - self.x[0])) if self.x.size else self

    @property
    def end(self) -> tuple[float, float]:
        """The middle of the last tenth of the x range, and the mean score over that tenth."""
        if not self.x.size:
            raise InputError(f"curve '{self.name}' has no usable point, and so no end: it needs a finite score")
        first, last = float(self.x[0]), float(self.x[-1])
        tenth = self.x >= last - 0.1 * (last - first)
        return last - 0.05 * (last - first), float(self.y[tenth].mean())

    def where(self, mask: NDArray[np.bool_]) -> Self:
        """Return some of the points."""
        errors = None if self.standard_errors is None else self.standard_errors[mask]
        return replace(self, x=self.x[mask], y=self.y[mask], standard_errors=errors)
