"""The noise-free courses that runs take: pass rates in [0, 1] as functions of progress, which goes from 0 to 1.

Published constants where there are some; else ranges that hold the public runs we have read.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from planner.curves.curve import Vector

Mean = Callable[[Vector], Vector]

SCALERL = (
    (2542, 1.92, 0.610),
    (11272, 1.89, 0.645),
    (2542, 2.44, 0.585),
    (3054, 2.22, 0.590),
    (2936, 2.07, 0.595),
    (4242, 1.65, 0.710),
    (2818, 1.77, 0.605),
    (10909, 1.70, 0.645),
    (2896, 2.05, 0.595),
    (1675, 1.09, 0.615),
)
"""C_mid in GPU-hours, B and A of Table 1 of ScaleRL (arXiv 2510.13786)."""

LOG_LINEAR = (
    (0.0052, 0.0040),
    (0.0145, 0.0309),
    (0.0262, 0.0477),
    (0.0490, 0.0713),
    (0.0726, 0.1146),
    (0.0995, 0.1535),
    (0.1186, 0.1849),
    (0.0088, 0.0008),
    (0.0188, -0.0003),
    (0.0373, -0.0015),
    (0.0593, 0.0215),
    (0.0885, 0.0632),
    (0.1126, 0.1386),
)
"""k and E of log10(1 − score) = E − k·log10(samples), 0.5B to 72B, base then instruct (arXiv 2509.25300)."""

SAMPLES_PER_STEP = 512  # of the runs behind LOG_LINEAR


class Course(NamedTuple):
    """The mean score at each progress, and the GPU-hours of the whole run."""

    mean: Mean
    gpu_hours: float


def log_uniform(rng: Generator, low: float, high: float) -> float:
    """Draw a number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def sigmoid(rng: Generator) -> Course:
    """Rise as ScaleRL's runs do, seen up to 2–6 × C_mid."""
    middle_gpu_hours, exponent, asymptote = _published(rng)
    length = log_uniform(rng, 2, 6)
    start = rng.uniform(0.1, 0.5)
    mean = _rising(start, asymptote, exponent, 1 / length)
    return Course(mean, middle_gpu_hours * length)


def saturating(rng: Generator) -> Course:
    """Rise early and stay: C_mid at 1–10 % of the run, as in most public runs on easy tasks."""
    start = rng.uniform(0.05, 0.5)
    asymptote = start + rng.uniform(0.2, 0.95) * (1 - start)
    return _run(rng, _rising(start, asymptote, log_uniform(rng, 0.7, 3), log_uniform(rng, 0.01, 0.1)))


def power_law(rng: Generator) -> Course:
    """Rise slowly towards an asymptote that is not reached: A − (A − R0)·(1 + C/c)^−B, so that it starts at R0."""
    start = rng.uniform(0.1, 0.5)
    gain, exponent, knee = rng.uniform(0.3, 1) * (1 - start), rng.uniform(0.15, 0.8), log_uniform(rng, 0.005, 0.1)
    return _run(rng, lambda u: start + gain * (1 - (1 + u / knee) ** -exponent))


def log_linear(rng: Generator) -> Course:
    """Lose log error at a constant rate per log sample, the first step's samples being there from the start."""
    slope, offset = LOG_LINEAR[rng.integers(len(LOG_LINEAR))]
    slope *= rng.uniform(0.85, 1.15)
    steps = log_uniform(rng, 50, 1000)
    return _run(rng, lambda u: np.clip(1 - 10**offset * (SAMPLES_PER_STEP * (1 + steps * u)) ** -slope, 0, 1))


def shoulder(rng: Generator) -> Course:
    """Rise in two stages with a shoulder between them, both in the first half."""
    return _run(rng, _two_stages(rng, rng.uniform(0.02, 0.06), rng.uniform(0.15, 0.45)))


def second_rise(rng: Generator) -> Course:
    """Rise, rest on a plateau, and rise again late."""
    return _run(rng, _two_stages(rng, rng.uniform(0.02, 0.08), rng.uniform(0.4, 0.95)))


def slide(rng: Generator) -> Course:
    """Rise to a peak and then slowly lose 5–50 % of the gain."""
    start, peak = rng.uniform(0.1, 0.5), rng.uniform(0.15, 0.6)
    gain, lost, bend = rng.uniform(0.2, 0.9) * (1 - start), rng.uniform(0.05, 0.5), rng.uniform(0.7, 1.5)
    middle, exponent = log_uniform(rng, 0.01, 0.08), log_uniform(rng, 1, 3)

    def mean(u: Vector) -> Vector:
        risen = gain * _gained(np.minimum(u, peak), middle, exponent)
        return start + risen * (1 - lost * np.maximum((u - peak) / (1 - peak), 0) ** bend)

    return _run(rng, mean)


def collapse(rng: Generator) -> Course:
    """Rise as a sigmoid does and fall to exactly zero at any moment of the run, within 2 % of it."""
    rise, gpu_hours = (sigmoid if rng.random() < 0.5 else saturating)(rng)
    moment, fall = rng.uniform(0.03, 0.97), rng.uniform(0.001, 0.02)
    return Course(lambda u: rise(u) * np.clip(1 - (u - moment) / fall, 0, 1), gpu_hours)


def ceiling(rng: Generator) -> Course:
    """Rise until a hard ceiling, often a perfect score, and stay at it exactly."""
    start, top = rng.uniform(0.05, 0.5), 1.0 if rng.random() < 0.5 else rng.uniform(0.6, 0.95)
    reached, exponent = rng.uniform(0.08, 0.9), log_uniform(rng, 0.6, 2)
    return _run(rng, lambda u: np.minimum(start + (top - start) * (u / reached) ** exponent, top))


def dead(rng: Generator) -> Course:
    """Stay at the start value for ever."""
    start = rng.uniform(0.02, 0.6)
    return _run(rng, lambda u: np.full_like(u, start))


def zero(rng: Generator) -> Course:
    """Never score at all."""
    return _run(rng, np.zeros_like)


def late_start(rng: Generator) -> Course:
    """Show no signal for 10–40 % of the run, then rise steeply."""
    start = 0.0 if rng.random() < 0.5 else rng.uniform(0.01, 0.3)
    onset, gain = rng.uniform(0.1, 0.4), rng.uniform(0.3, 1) * (1 - start)
    middle, exponent = rng.uniform(0.03, 0.15), rng.uniform(1.5, 4)
    return _run(rng, lambda u: start + gain * _gained(np.maximum(u - onset, 0), middle, exponent))


def _run(rng: Generator, mean: Mean) -> Course:
    return Course(mean, log_uniform(rng, 1, 50_000))


def _published(rng: Generator) -> tuple[float, float, float]:
    """Draw a row of SCALERL, moved by more than the ±0.02 in A that its authors find between seeds."""
    middle, exponent, asymptote = SCALERL[rng.integers(len(SCALERL))]
    jitter = rng.normal(size=3) * (0.2, 0.15, 0.03)
    return middle * float(np.exp(jitter[0])), exponent * float(np.exp(jitter[1])), asymptote + jitter[2]


def _gained(u: Vector, middle: float, exponent: float) -> Vector:
    """Return the share of the gain that is reached: 1/(1 + (C_mid/C)^B)."""
    ratio = (u / middle) ** exponent
    return ratio / (1 + ratio)


def _rising(start: float, asymptote: float, exponent: float, middle: float) -> Mean:
    return lambda u: start + (asymptote - start) * _gained(u, middle, exponent)


def _two_stages(rng: Generator, first: float, second: float) -> Mean:
    start = rng.uniform(0.05, 0.4)
    gain, late_share = rng.uniform(0.3, 0.95) * (1 - start), rng.uniform(0.2, 0.6)
    early, late = rng.uniform(1.5, 3), rng.uniform(4, 12)

    def mean(u: Vector) -> Vector:
        return start + gain * ((1 - late_share) * _gained(u, first, early) + late_share * _gained(u, second, late))

    return mean
