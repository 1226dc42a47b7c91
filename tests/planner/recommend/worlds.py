"""Joint beliefs for tests: sigmoids in log compute with drawn parameters, a row of draws one state of the world."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.recommend.facts import ConfigurationFacts
from planner.view import Configuration

Vector = NDArray[np.float64]
TARGET = 100.0


@dataclass(frozen=True, eq=False)
class Sigmoids:
    """R0 + (A − R0) / (1 + (C_mid/C)^1.5) of each draw and configuration; some fall beyond a compute."""

    configurations: tuple[Configuration, ...]
    asymptote: Vector  # (draws, configurations)
    middle: Vector
    falls_at: Vector | None = None  # (configurations,)
    unconverged: float = 0.0

    def scores(self, gpu_hours: Sequence[float | Vector]) -> Vector:
        x = np.stack([np.broadcast_to(each, len(self.configurations)) for each in gpu_hours], axis=-1)
        risen = 1 / (1 + (self.middle[..., None] / x) ** 1.5)
        scores = 0.2 + (self.asymptote[..., None] - 0.2) * risen
        if self.falls_at is not None:
            scores = np.where(x > self.falls_at[:, None], 0.05, scores)
        return np.clip(scores, 0.0, 1.0)


def sigmoids(
    tops: Mapping[tuple[int, int], float],
    *,
    sd: float = 0.01,
    middle: float | Mapping[tuple[int, int], float] = 5.0,
    spread: float = 0.0,
    draws: int = 500,
    seed: int = 0,
    falls_at: Mapping[tuple[int, int], float] | None = None,
) -> Sigmoids:
    """Return beliefs about the asymptotes of cells (n, B), independent of each other."""
    rng = np.random.default_rng(seed)
    shape = (draws, len(tops))
    middles = np.array([middle if isinstance(middle, float) else middle[cell] for cell in tops])
    falls = None if falls_at is None else np.array([falls_at.get(cell, np.inf) for cell in tops])
    return Sigmoids(
        tuple(Configuration(*cell) for cell in tops),
        np.array(list(tops.values())) + sd * rng.standard_normal(shape),
        middles * np.exp(spread * rng.standard_normal(shape)),
        falls,
    )


def facts(joint: Sigmoids, **changes: Any) -> dict[Configuration, ConfigurationFacts]:
    """Return facts of runs that were piloted to a tenth of the target."""
    fields: dict[str, Any] = {
        "learning_rate": 1e-6,
        "recipe": "grpo",
        "gpu_hours_per_step": 0.3,
        "status": "paused",
        "gpu_hours_spent": 10.0,
        "reached_gpu_hours": 20.0,
        "seeds_seen": 2,
    }
    return {each: ConfigurationFacts(**{**fields, **changes}) for each in joint.configurations}
