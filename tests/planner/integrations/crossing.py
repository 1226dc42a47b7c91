"""Runs whose early order is not their final one: who starts late tends to end high, along sigmoids with noise."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

STEPS = 36
NOISE = 0.015


@dataclass(frozen=True)
class Run:
    """One run: from 0.1 to an asymptote, by a midpoint in steps and an exponent."""

    asymptote: float
    midpoint: float
    exponent: float
    seed: int

    def mean(self, step: float) -> float:
        return 0.1 + (self.asymptote - 0.1) / (1 + (self.midpoint / max(step, 1e-9)) ** self.exponent)

    def scores(self) -> Iterator[tuple[int, float]]:
        rng = np.random.default_rng(self.seed)
        for step in range(1, STEPS + 1):
            yield step, float(np.clip(self.mean(step) + NOISE * rng.normal(), 0, 1))

    @property
    def end(self) -> float:
        return self.mean(STEPS)


def runs(seed: int, count: int = 12) -> list[Run]:
    rng = np.random.default_rng(seed)
    lateness = rng.uniform(0, 1, count)
    asymptote = np.clip(0.35 + 0.5 * lateness * rng.uniform(0.3, 1, count) + rng.normal(0, 0.1, count), 0.15, 0.97)
    midpoint, exponent = 2.4 * 7.5**lateness, rng.uniform(1.2, 3.5, count)
    return [
        Run(*map(float, each), seed=1000 * seed + i)
        for i, each in enumerate(zip(asymptote, midpoint, exponent, strict=True))
    ]


def with_a_late_starter() -> tuple[list[Run], int]:
    """Ten that rise at once and stay middling, and one that begins late and ends highest; its place comes with it.

    It comes last, when a median over finished runs knows all the others.
    """
    early = [Run(0.35 + 0.02 * (3 * i % 10), 3.0, 1.8, seed=i) for i in range(10)]
    return [*early, Run(0.92, 14.0, 3.2, seed=10)], len(early)
