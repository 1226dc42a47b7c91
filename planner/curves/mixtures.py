"""Mixtures of normal distributions, many at once: the form in which every posterior here comes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from planner.curves.curve import Vector

BISECTIONS = 8
STEPS = 14
SLICES = 48  # into which the means of the lighter components are sorted
SPANNED = 8.0  # standard deviations that the slices span together
LARGEST_Z = 40.0  # standard deviations; the density beyond is 0 in floating point
ROOT_TWO_PI = float(np.sqrt(2 * np.pi))


@dataclass(frozen=True)
class Mixtures:
    """n mixtures of k normals each as (n, k) arrays; weights of a row sum to 1, values lie within [low, high]."""

    weight: Vector
    mean: Vector
    sd: Vector
    low: Vector
    high: Vector

    @classmethod
    def condensed(cls, weight: Vector, mean: Vector, sd: Vector, low: Vector, high: Vector, keep: int) -> "Mixtures":
        """Keep the heaviest components, and merge the others, slice by slice of their means, into normals.

        Of a posterior that is spread over thousands of components the few heaviest are not enough.
        """
        if weight.shape[1] > keep + SLICES:
            top = np.argpartition(weight, -keep, axis=1)[:, -keep:]
            chosen = [np.take_along_axis(part, top, axis=1) for part in (weight, mean, sd)]
            others = weight.copy()
            np.put_along_axis(others, top, 0.0, axis=1)
            parts = zip(chosen, _merged(others, mean, sd), strict=True)
            weight, mean, sd = (np.hstack([heaviest, rest]) for heaviest, rest in parts)
        weight = np.maximum(weight, 1e-300)  # components that all underflow count alike
        return cls(weight / weight.sum(axis=1, keepdims=True), mean, sd, low, high)

    @classmethod
    def joined(cls, parts: Sequence["Mixtures"]) -> "Mixtures":
        """Return several, each of as many components, as one."""
        return cls(*(np.concatenate(arrays) for arrays in zip(*(vars(part).values() for part in parts), strict=True)))

    def part(self, rows: slice) -> "Mixtures":
        """Return some of the mixtures."""
        return Mixtures(**{name: values[rows] for name, values in vars(self).items()})

    def sample(self, generator: np.random.Generator, draws: int) -> Vector:
        """Return independent draws of every mixture, (n, draws)."""
        at, normal = generator.random((len(self.weight), draws)), generator.standard_normal((len(self.weight), draws))
        ends = np.cumsum(self.weight, axis=1)[:, :-1]
        of = np.stack([np.searchsorted(*row) for row in zip(ends, at, strict=True)])
        mean, sd = (np.take_along_axis(values, of, axis=1) for values in (self.mean, self.sd))
        return np.asarray(np.clip(mean + sd * normal, self.low[:, None], self.high[:, None]))

    def cdf(self, value: Vector) -> Vector:
        """Return the probability of less than a value, one value per mixture."""
        inside = (self.weight * ndtr((value[:, None] - self.mean) / self.sd)).sum(axis=1)
        return np.where(value < self.low, 0.0, np.where(value >= self.high, 1.0, inside))

    def quantile(self, level: float) -> Vector:
        """Return a quantile of every mixture: bisection to about its place, then Newton's steps within the bracket."""
        # A mixture's quantile lies between the least and the greatest of its components'.
        of_components = self.mean + ndtri(level) * self.sd
        low, high = of_components.min(axis=1), of_components.max(axis=1)
        value = (low + high) / 2
        for step in range(STEPS):
            z = (value[:, None] - self.mean) / self.sd
            excess = (self.weight * ndtr(z)).sum(axis=1) - level
            low, high = np.where(excess < 0, value, low), np.where(excess < 0, high, value)
            value = (low + high) / 2
            if step >= BISECTIONS:
                density = (self.weight * np.exp(-(z**2) / 2) / self.sd).sum(axis=1) / ROOT_TWO_PI
                newton = np.where(excess < 0, low, high) - excess / np.maximum(density, 1e-300)
                value = np.where((newton >= low) & (newton <= high), newton, value)
        return np.asarray(np.clip(value, self.low, self.high))

    def average(self) -> Vector:
        """Return the mean of every mixture, what lies beyond the bounds counted at them (as `quantile` does)."""
        low, high = (np.where(np.isfinite(bound), bound, 0.0)[:, None] for bound in (self.low, self.high))
        ends = ((bound[:, None] - self.mean) / self.sd for bound in (self.low, self.high))
        below, above = (np.clip(end, -LARGEST_Z, LARGEST_Z) for end in ends)
        density = (np.exp(-(below**2) / 2) - np.exp(-(above**2) / 2)) / ROOT_TWO_PI
        inside = self.mean * (ndtr(above) - ndtr(below)) + self.sd * density
        return np.asarray((self.weight * (inside + low * ndtr(below) + high * ndtr(-above))).sum(axis=1))


def _merged(weight: Vector, mean: Vector, sd: Vector) -> tuple[Vector, Vector, Vector]:
    """Merge components whose means are near each other into one normal of their moments.

    A slice without weight stands where the mixture does.
    """
    n = len(weight)
    overall = (weight * mean).sum(axis=1, keepdims=True) / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
    square = (weight * mean**2).sum(axis=1, keepdims=True) / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
    width = SPANNED * np.sqrt(np.maximum(square - overall**2, 0.0)) / SLICES
    place = (mean - overall) / np.where(width > 0, width, 1.0) + SLICES / 2
    slices = np.clip(place, 0, SLICES - 1).astype(np.intp) + SLICES * np.arange(n)[:, None]

    def summed(values: Vector) -> Vector:
        sums = np.bincount(slices.ravel(), values.ravel(), minlength=n * SLICES)
        return np.asarray(sums.reshape(n, SLICES), dtype=float)

    total = summed(weight)
    empty, filled = total <= 0, np.maximum(total, 1e-300)
    middle = np.where(empty, overall, summed(weight * mean) / filled)
    variance = summed(weight * (sd**2 + (mean - overall) ** 2)) / filled - (middle - overall) ** 2
    least = sd.min(axis=1, keepdims=True)
    return total, middle, np.maximum(np.sqrt(np.where(empty, 0.0, np.maximum(variance, 0.0))), least)
