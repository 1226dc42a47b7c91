"""Recorded runs whose truth is known, and policies that are watched."""

from collections.abc import Sequence

import numpy as np

from planner.policy.actions import Action, Policy
from planner.replay.recorded import Recorded, RecordedRun
from planner.view import Axes, Configuration, View

LENGTH = 100.0


class Watched:
    """Keeps what a policy was asked about, and what it decided."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.name = policy, policy.name
        self.decisions: list[tuple[View, Sequence[Action]]] = []

    def decide(self, view: View) -> Sequence[Action]:
        self.decisions.append((view, self._policy.decide(view)))
        return self.decisions[-1][1]


def run(
    name: str = "a",
    cell: tuple[int, int] = (8, 4),
    *,
    hours: Sequence[float] = (0, 25, 50, 75, 100),
    scores: Sequence[float] | float = 0.5,
    seed: int = 0,
    axes: Axes = (),
    errors: Sequence[float] | None = None,
) -> RecordedRun:
    x = np.asarray(hours, dtype=float)
    return RecordedRun(
        name,
        Configuration(*cell, axes),
        seed,
        x,
        np.broadcast_to(np.asarray(scores, dtype=float), x.shape),
        None if errors is None else np.asarray(errors, dtype=float),
    )


def grid(cells: int = 12, seeds: int = 2, points: int = 25, seed: int = 0, noise: float = 0.02) -> Recorded:
    """Sigmoids of which A is quadratic in log n and log B, with noisy scores; the curves cross."""
    rng = np.random.default_rng(seed)
    runs = []
    for number in range(cells):
        n, B = 2 ** (1 + number % 6), 2 ** (1 + number // 6)
        top = 0.8 - 0.01 * (np.log2(n) - 4) ** 2 - 0.01 * (np.log2(B) - 3) ** 2
        middle = 5 * np.exp(0.2 * np.log2(n) + 0.3 * rng.normal())
        hours = np.linspace(0, LENGTH, points + 1)
        mean = 0.1 + (top - 0.1) / (1 + (middle / np.maximum(hours, 1e-9)) ** 1.5)
        runs += [
            run(
                f"c{number}-s{of}",
                (n, B),
                hours=hours.tolist(),
                scores=np.clip(mean + noise * rng.normal(size=hours.size), 0, 1).tolist(),
                seed=of,
                errors=[0.02] * hours.size,
            )
            for of in range(seeds)
        ]
    return Recorded(tuple(runs))
