"""Draw curves of a named shape, and a suite of them in the proportions of the field."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from bench.synthetic import courses, noise
from bench.synthetic.courses import Course
from bench.synthetic.noise import Noise
from budgets.errors import InputError, UnknownNameError
from planner.curves.curve import Curve, Vector

FEWEST_POINTS, MOST_POINTS = 30, 1000
STEPS_BETWEEN_POINTS = (1, 2, 5, 10, 20, 50)
PASS_RATE = (0.0, 1.0)
REWARD_SCALES = ((-1.0, 9.0), (0.0, 3.0), (-1.0, 1.0), (0.0, 2.0), (-3.0, 10.0))


@dataclass(frozen=True, eq=False)
class SyntheticCurve:
    """A curve, its shape, the noise-free mean score at any x from 0 to its last, and the noise of one score."""

    curve: Curve
    shape: str
    truth: Callable[[Vector], Vector]
    noise_sd: float


@dataclass(frozen=True)
class Shape:
    """One course of `courses` at random, how it is measured, and the scales that its scores may have.

    Of a hundred runs most rise and saturate: a judgement from public runs, not a census.
    """

    per_hundred: int
    courses: tuple[Callable[[Generator], Course], ...]
    noise: Callable[[Generator], Noise] = noise.typical
    scales: tuple[tuple[float, float], ...] = (PASS_RATE,)


_ORDINARY = (courses.sigmoid, courses.saturating, courses.shoulder, courses.power_law)

SHAPES = {
    "sigmoid": Shape(14, (courses.sigmoid,)),
    "saturating": Shape(16, (courses.saturating,)),
    "power-law": Shape(6, (courses.power_law,)),
    "log-linear": Shape(6, (courses.log_linear,)),
    "shoulder": Shape(6, (courses.shoulder,)),
    "second-rise": Shape(3, (courses.second_rise,)),
    "slide": Shape(8, (courses.slide,)),
    "collapse": Shape(4, (courses.collapse,)),
    "ceiling": Shape(6, (courses.ceiling,)),
    "dead": Shape(3, (courses.dead,)),
    "zero": Shape(2, (courses.zero,)),
    "late-start": Shape(4, (courses.late_start,)),
    "evaluation-noise": Shape(4, _ORDINARY, noise.evaluation),
    "heavy-noise": Shape(6, _ORDINARY, noise.small_batch),
    "autocorrelated": Shape(4, _ORDINARY, noise.autocorrelated),
    "reward-scale": Shape(5, (*_ORDINARY, courses.late_start), scales=REWARD_SCALES),
    "outliers": Shape(3, _ORDINARY, noise.with_outliers),
}


def draw(shape: str, rng: Generator) -> SyntheticCurve:
    """Draw a curve of a shape: 30 to 1,000 points over steps or GPU-hours, half of the time one before training."""
    if shape not in SHAPES:
        raise UnknownNameError("curve shape", shape, SHAPES)
    kind = SHAPES[shape]
    course = kind.courses[rng.integers(len(kind.courses))](rng)
    x = _axis(course.gpu_hours, rng)
    length = float(x[-1])
    low, high = kind.scales[rng.integers(len(kind.scales))]

    def truth(at: Vector) -> Vector:
        return low + (high - low) * course.mean(np.asarray(at, dtype=float) / length)

    measured = kind.noise(rng)
    mean = course.mean(x / length)
    scores = low + (high - low) * measured.scores(mean, rng)
    curve = Curve.of(shape, x, scores, bounded=(low, high) == PASS_RATE)
    return SyntheticCurve(curve, shape, truth, (high - low) * measured.sd(mean))


def suite(rng: Generator, per_shape: float) -> list[SyntheticCurve]:
    """Draw `per_shape` curves for each shape on average, shared out by `per_hundred` and named shape-1, shape-2, …."""
    if not per_shape > 0:
        raise InputError(f"{per_shape} curves per shape: give a number above 0")
    drawn = []
    for shape, count in _counts(round(per_shape * len(SHAPES))).items():
        for i in range(1, count + 1):
            synthetic = draw(shape, rng)
            drawn.append(replace(synthetic, curve=replace(synthetic.curve, name=f"{shape}-{i}")))
    return drawn


def _counts(total: int) -> dict[str, int]:
    """Share out a number of curves by `per_hundred`: the largest remainders get what rounding down leaves."""
    weights = sum(shape.per_hundred for shape in SHAPES.values())
    exact = {name: total * shape.per_hundred / weights for name, shape in SHAPES.items()}
    counts = {shape: int(share) for shape, share in exact.items()}
    by_remainder = sorted(exact, key=lambda shape: counts[shape] - exact[shape])
    for shape in by_remainder[: total - sum(counts.values())]:
        counts[shape] += 1
    return counts


def _axis(gpu_hours: float, rng: Generator) -> Vector:
    """Draw the x of the points: steps at a fixed distance, or GPU-hours at one that varies by some 15 %."""
    points = round(courses.log_uniform(rng, FEWEST_POINTS, MOST_POINTS))
    before_training = int(rng.random() < 0.5)
    if rng.random() < 0.5:
        steps = np.arange(points, dtype=float) + (1 - before_training)
        return steps * float(rng.choice(STEPS_BETWEEN_POINTS))
    elapsed = np.cumsum(rng.lognormal(sigma=0.15, size=points - before_training))
    return np.asarray(np.append(np.zeros(before_training), gpu_hours * elapsed / elapsed[-1]), dtype=float)
