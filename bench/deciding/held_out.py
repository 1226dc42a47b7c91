"""Tables that no policy was tuned to: generators of their own, which share nothing with runner/simulation.

Whoever works on a policy does not read this file; see bench/deciding/README.md. Each generator draws a world from
a `numpy.random.Generator`: a mean curve for each configuration over GPU-hours, from published constants where a source
is named, and what the runs of that world have in common: the noise between seeds, the size of the validation set, the
number of points.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.view import Configuration

Vector = NDArray[np.float64]
Mean = Callable[[Vector], Vector]  # score over GPU-hours
Maker = Callable[[np.random.Generator], "Draft"]

# ScaleRL (arXiv 2510.13786), Table 1: log batch → (C_mid, B, A), and what generations per prompt change about 16.
BATCHES: Final = {512: (2818, 1.77, 0.605), 768: (2542, 1.92, 0.610), 2048: (10909, 1.70, 0.645)}
GENERATIONS: Final = {8: (2542, 2.44, 0.585), 16: (2542, 1.92, 0.610), 24: (3054, 2.22, 0.590), 32: (2936, 2.07, 0.595)}
# IsoCompute (arXiv 2603.12151), n* when everything is free: rise, steepness, midpoint (log10 rollouts), floor.
GROUP_LAWS: Final = {"easy": (5.67, 8.84, 6.08, 3.08), "hard": (3.97, 20.0, 6.13, 3.04)}
# arXiv 2509.25300, base models over compute: (parameters in billions, k, E) of log10 L = −k·log10 X + E.
POWER_LAWS: Final = (
    ("1.5b", 1.5, 0.0131, 0.2074),
    ("3b", 3.0, 0.0238, 0.3741),
    ("7b", 7.0, 0.0448, 0.7045),
    ("14b", 14.0, 0.0670, 1.0848),
    ("32b", 32.0, 0.0930, 1.5359),
)
FLOPS_PER_GPU_HOUR: Final = 4e14 * 3600


@dataclass(frozen=True)
class Course:
    """One configuration: its mean curve, how its seeds differ, and when a seed's run falls to nothing."""

    configuration: Configuration
    mean: Mean
    seed_sd: float = 0.008
    seed_log_time_sd: float = 0.06
    collapse: float = 0.0  # the share of its seeds that collapse


@dataclass(frozen=True)
class Draft:
    """What a generator returns: configurations, the target, and how they were measured."""

    target: float
    courses: Sequence[Course]
    seeds: int
    points: int
    answers: int  # graded for each validation
    ripple: float = 0.0  # standard deviation of slow wandering within a run


def rising(base: float, top: float, middle: float, exponent: float) -> Mean:
    """Return the sigmoid of ScaleRL."""
    return lambda x: base + (top - base) / (1 + (middle / np.maximum(x, 1e-12)) ** exponent)


def filling(base: float, top: float, pace: float, power: float) -> Mean:
    """Return a stretched exponential: no sigmoid, and no power-law tail."""
    return lambda x: base + (top - base) * -np.expm1(-((x / pace) ** power))


def scalerl(rng: np.random.Generator) -> Draft:
    """Total batch × generations, interpolated in ScaleRL's Table 1."""
    target = float(rng.choice([8e3, 16e3, 5e4]))
    base = rng.uniform(0.25, 0.4)
    logs = np.log(list(BATCHES))
    of_batch = np.array([[math.log(m), b, a] for m, b, a in BATCHES.values()])
    of_group = np.array([[math.log(m), b, a] for m, b, a in GENERATIONS.values()]) - of_batch[1]
    strength, slant = rng.uniform(0.5, 1.5), rng.normal(0, 0.01)
    courses = []
    for total, n in itertools.product((384, 512, 768, 1152, 1536, 2048), (8, 12, 16, 24, 32)):
        by_batch = [np.interp(math.log(total), logs, column) for column in of_batch.T]
        by_group = [strength * np.interp(math.log(n), np.log(list(GENERATIONS)), column) for column in of_group.T]
        log_middle, exponent, top = np.add(by_batch, by_group)
        top += slant * math.log2(n / 16) + rng.normal(0, 0.004)
        middle = math.exp(log_middle + rng.normal(0, 0.05))
        courses.append(Course(Configuration(n, round(total / n)), rising(base, top, middle, max(0.8, exponent)), 0.008))
    return Draft(target, courses, int(rng.integers(1, 4)), int(rng.integers(25, 50)), 4000)


def isocompute(rng: np.random.Generator) -> Draft:
    """Each n is the best one where the law says so; no curve of a cell is written down, only the frontier is."""
    rise, steepness, midpoint, floor = GROUP_LAWS[str(rng.choice(["easy", "hard"]))]
    shift, scale = rng.normal(0, 0.5), math.exp(rng.normal(0, 0.5))
    top, base = rng.uniform(0.55, 0.75), rng.uniform(0.35, 0.5)
    width, off_batch = rng.uniform(1.5, 3.0), rng.uniform(0.0005, 0.003)
    favourite = rng.uniform(5, 8)
    overhead = rng.uniform(0, 1500)  # rollouts that the time of an update would have made
    rollouts_per_hour = rng.uniform(300, 3000)
    target = 3e6 * scale / rollouts_per_hour

    def course(n: int, B: int) -> Course:
        octave, own = math.log2(n) - shift, rng.normal(0, 0.004)
        per_hour = rollouts_per_hour * n * B / (n * B + overhead)

        def mean(x: Vector) -> Vector:
            logs = np.log10(np.maximum(x, 1e-9) * per_hour / scale + 1e3)
            best = rise / (1 + np.exp(-steepness * (logs - midpoint))) + floor
            frontier = base + (top - base) / (1 + 10 ** (-1.1 * (logs - 5.7)))
            short = 1 / (1 + np.exp((octave - best) / (width / 2) * 1.2 - 2.5))  # too large an n has not arrived yet
            late = 0.012 * np.maximum(best - octave, 0)
            beside = off_batch * (math.log2(B) - favourite) ** 2
            return np.maximum.accumulate(base + (frontier - base) * short - late - beside + own)

        return Course(Configuration(n, B), mean, 0.008)

    cells = [(n, B) for n in (8, 16, 32, 64, 128, 256, 512) for B in (16, 32, 64, 128, 256, 512) if n * B <= 32768]
    return Draft(target, [course(*cell) for cell in cells], int(rng.integers(1, 3)), 40, 1200, 0.004)


def power_by_model(rng: np.random.Generator) -> Draft:
    """Five base models by the power laws of arXiv 2509.25300, a step of the larger ones costing more."""
    target = float(rng.choice([200.0, 1000.0, 8000.0]))
    efficiency = rng.uniform(0.2, 0.5)
    groups, batches = (4, 8, 16), (128, 256, 512)
    best = rng.uniform(2, 4), rng.uniform(7, 9)
    weights = rng.uniform(0.002, 0.012), rng.uniform(0.001, 0.006)
    courses = []
    for (name, _, k, e), n, B in itertools.product(POWER_LAWS, groups, batches):
        penalty = weights[0] * (math.log2(n) - best[0]) ** 2 + weights[1] * (math.log2(B) - best[1]) ** 2
        lag = 1e17 * 2 ** (0.4 * (math.log2(n * B) - 11))

        def mean(x: Vector, k: float = k, e: float = e, penalty: float = penalty, lag: float = lag) -> Vector:
            flops = x * FLOPS_PER_GPU_HOUR * efficiency / 10 + lag
            return 1 - np.minimum(0.99, 10 ** (e - k * np.log10(flops))) - penalty

        courses.append(Course(Configuration(n, B, (("model", name),)), mean, 0.006, 0.02))
    return Draft(target, courses, int(rng.integers(1, 3)), 30, 500)


def quadratic(rng: np.random.Generator) -> Draft:
    """Smooth surfaces of the asymptote and of the pace; the curve is a stretched exponential."""
    target = float(rng.choice([40.0, 600.0, 1e5]))
    base, top = rng.uniform(0.05, 0.4), rng.uniform(0.6, 0.9)
    peak = rng.uniform(2.5, 6.5), rng.uniform(3.5, 7.5)
    bend = rng.uniform(0.002, 0.015, size=2)
    twist, tilt = rng.uniform(-0.5, 0.5), rng.normal(0, 0.25, size=2)
    pace, power = target * rng.uniform(0.08, 0.5), rng.uniform(0.6, 1.3)
    courses = []
    for n, B in itertools.product((4, 8, 16, 32, 64, 128), (8, 16, 32, 64, 128, 256)):
        u, v = math.log2(n) - peak[0], math.log2(B) - peak[1]
        off = bend[0] * u * u + bend[1] * v * v + 2 * twist * math.sqrt(bend[0] * bend[1]) * u * v
        own = pace * math.exp(float(tilt @ (u, v)) + rng.normal(0, 0.1))
        courses.append(
            Course(Configuration(n, B), filling(base, max(base, top - off + rng.normal(0, 0.004)), own, power))
        )
    return Draft(target, courses, int(rng.integers(1, 4)), int(rng.integers(20, 50)), 1000)


def rough(rng: np.random.Generator) -> Draft:
    """No smoothness at all: the neighbours of a cell say nothing of it."""
    target, base = float(rng.choice([30.0, 3000.0])), rng.uniform(0.05, 0.4)
    cells = itertools.product((2, 4, 8, 16, 32, 64, 128), (4, 8, 16, 32, 64, 128))
    courses = []
    for n, B in cells:
        top, middle = base + (0.9 - base) * rng.beta(3, 2), target * math.exp(rng.normal(-1.6, 0.7))
        shape = rising(base, top, middle, rng.uniform(1, 2.5))
        courses.append(Course(Configuration(n, B), shape, 0.008))
    return Draft(target, courses, 1, int(rng.integers(20, 40)), 600)


def crossing(rng: np.random.Generator) -> Draft:
    """All curves cross: who ends higher rises later, so that early ranks are the reverse of the last ones."""
    target, base = 1000.0, rng.uniform(0.1, 0.3)
    low, high = rng.uniform(0.45, 0.55), rng.uniform(0.65, 0.8)
    lag = rng.uniform(0.9, 1.6)
    direction = rng.uniform(0.3, 1.0), rng.uniform(0.3, 1.0)
    courses = []
    for n, B in itertools.product((4, 8, 16, 32, 64, 128, 256), (16, 32, 64, 128, 256)):
        place = (direction[0] * (math.log2(n) - 2) / 6 + direction[1] * (math.log2(B) - 4) / 4) / sum(direction)
        top = low + (high - low) * place + rng.normal(0, 0.006)
        middle = target * 0.03 * math.exp(lag * 2 * place + rng.normal(0, 0.1))
        courses.append(Course(Configuration(n, B), rising(base, top, middle, rng.uniform(1.4, 2.0))))
    return Draft(target, courses, int(rng.integers(1, 3)), 40, 800)


def near_ties(rng: np.random.Generator) -> Draft:
    """Many within 0.02 of the best, and seeds that differ by as much."""
    target, base, top = 500.0, rng.uniform(0.2, 0.4), rng.uniform(0.55, 0.75)
    courses = []
    for n, B in itertools.product((8, 16, 32, 64, 128, 256), (16, 32, 64, 128, 256)):
        asymptote = top - abs(rng.normal(0, 0.012)) - (0.08 if rng.random() < 0.3 else 0.0)
        middle = target * rng.uniform(0.08, 0.2)
        courses.append(Course(Configuration(n, B), rising(base, asymptote, middle, 1.6), 0.012, 0.1))
    return Draft(target, courses, 3, 30, 300, 0.005)


def further_axes(rng: np.random.Generator) -> Draft:
    """Recipe and learning rate beside n and B: a rate that is too high collapses, and the recipes rank differently."""
    target, base = float(rng.choice([100.0, 2000.0])), rng.uniform(0.2, 0.4)
    recipes = {name: (rng.uniform(0.48, 0.66), rng.uniform(0.07, 0.25)) for name in ("grpo", "dapo", "scalerl")}
    best_rate, best_n = rng.uniform(-1, 1), rng.uniform(3, 6)
    courses = []
    for (recipe, (top, pace)), rate, n, B in itertools.product(
        recipes.items(), (0.5, 1.0, 2.0, 4.0), (8, 64), (32, 128)
    ):
        off = math.log2(rate) - best_rate
        fall = 0.015 * off * off + 0.006 * (math.log2(n) - best_n) ** 2
        middle = target * pace * 2 ** (-0.6 * math.log2(rate)) * math.exp(rng.normal(0, 0.1))
        axes = (("learning_rate", rate), ("recipe", recipe))
        shape = rising(base, max(base, top - fall + rng.normal(0, 0.005)), middle, 1.7)
        courses.append(Course(Configuration(n, B, axes), shape, 0.008, 0.06, 0.7 if off > 1.6 else 0.0))
    return Draft(target, courses, int(rng.integers(1, 3)), 35, 800)


def unruly(rng: np.random.Generator) -> Draft:
    """Shoulders, slides after a peak, late starts and collapses, over a surface that is smooth underneath."""
    target, base = 300.0, rng.uniform(0.02, 0.3)
    peak, top = (rng.uniform(3, 6), rng.uniform(4, 7)), rng.uniform(0.5, 0.85)
    bend = rng.uniform(0.004, 0.02, size=2)
    courses = []
    for n, B in itertools.product((4, 8, 16, 32, 64, 128), (8, 16, 32, 64, 128, 256)):
        off = bend[0] * (math.log2(n) - peak[0]) ** 2 + bend[1] * (math.log2(B) - peak[1]) ** 2
        reach = max(base + 0.02, top - off)
        middle = target * math.exp(rng.normal(-1.9, 0.3))
        plain = rising(base, reach, middle, rng.uniform(1.3, 2.3))
        courses.append(Course(Configuration(n, B), _spoilt(plain, base, target, rng), 0.01, 0.1, 0.06))
    return Draft(target, courses, int(rng.integers(1, 4)), int(rng.integers(25, 50)), 600, 0.006)


def _spoilt(plain: Mean, base: float, target: float, rng: np.random.Generator) -> Mean:
    kind, where, depth = rng.random(), target * rng.uniform(0.15, 0.7), rng.uniform(0.1, 0.5)
    if kind < 0.15:  # slides
        return lambda x: plain(x) - depth * (plain(x) - base) * np.clip((x - where) / target, 0, 1)
    if kind < 0.3:  # rests on a shoulder, then rises
        return lambda x: base + (plain(x) - base) * (1 - depth * (1 - 1 / (1 + np.exp(-12 * (x - where) / target))))
    if kind < 0.45:  # no signal for a while
        return lambda x: plain(np.maximum(0.0, x - where / 3))
    return plain


def early_plateau(rng: np.random.Generator) -> Draft:
    """Everything has saturated by a fifth of the target; what is left is a small and smooth difference."""
    target, base, top = 60.0, rng.uniform(0.3, 0.5), rng.uniform(0.7, 0.95)
    best, bend = (rng.uniform(2, 6), rng.uniform(3, 7)), rng.uniform(0.001, 0.006, size=2)
    courses = []
    for n, B in itertools.product((4, 8, 16, 32, 64), (8, 16, 32, 64, 128, 256)):
        off = bend[0] * (math.log2(n) - best[0]) ** 2 + bend[1] * (math.log2(B) - best[1]) ** 2
        shape = rising(base, top - off, target * math.exp(rng.normal(-3.5, 0.3)), rng.uniform(1.5, 2.5))
        courses.append(Course(Configuration(n, B), shape, 0.008))
    return Draft(target, courses, 2, 30, 500)


MAKERS: Final[dict[str, Maker]] = {
    "scalerl-table": scalerl,
    "isocompute-law": isocompute,
    "power-by-model": power_by_model,
    "quadratic": quadratic,
    "rough": rough,
    "all-crossing": crossing,
    "near-ties": near_ties,
    "further-axes": further_axes,
    "unruly": unruly,
    "early-plateau": early_plateau,
}
