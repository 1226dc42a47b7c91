"""Where a better configuration may still be found, as a sampler of Optuna sees it.

Octaves of n and B, the values of named axes, and a range of learning rates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from planner.axes import LEARNING_RATE, Value, rounded_rate, value_of, values_by_axis, with_rate, without
from planner.sweeping.chances import ALPHA, Chances, bar
from planner.view import Cell, Configuration, OpenCell

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

N, B = "log2_rollouts_per_prompt", "log2_prompts_per_batch"


@dataclass(frozen=True, slots=True)
class Region:
    """A box in (log2 n, log2 B), whole octaves, both ends in it."""

    low: tuple[int, int]
    high: tuple[int, int]

    def __contains__(self, cell: Cell) -> bool:
        return all(low <= place <= high for low, place, high in zip(self.low, octaves(cell), self.high, strict=True))


def octaves(cell: Cell) -> tuple[float, float]:
    """Return (log2 n, log2 B)."""
    return math.log2(cell[0]), math.log2(cell[1])


def possible_region(chances: Chances) -> Region:
    """Return the box around the configurations that would not be given up: the best one is always among them."""
    limit = bar(ALPHA, len(chances.candidates))
    possible = [each for each, near in zip(chances.candidates, chances.near, strict=True) if near >= limit]
    places = np.array([octaves(each[:2]) for each in [chances.candidates[chances.leader], *possible]])
    low, high = np.floor(places.min(axis=0)), np.ceil(places.max(axis=0))
    return Region((int(low[0]), int(low[1])), (int(high[0]), int(high[1])))


@dataclass(frozen=True, slots=True)
class Space:
    """A box of n and B, the axes with more than one value, and the range of the learning rate if that is searched."""

    region: Region
    named: Mapping[str, tuple[Value, ...]]
    learning_rates: tuple[float, float] | None

    @classmethod
    def of(cls, region: Region, cells: Sequence[OpenCell], tried: Sequence[Configuration]) -> Space:
        """Return the space of open cells and of what was tried."""
        between = cells[0].learning_rates if cells else None
        axes = [*(cell.axes for cell in cells), *(configuration.axes for configuration in tried)]
        found = values_by_axis(without(each, LEARNING_RATE) if between else each for each in axes)
        return cls(region, {name: tuple(values) for name, values in found.items() if len(values) > 1}, between)

    def __contains__(self, configuration: Configuration) -> bool:
        return (configuration.rollouts_per_prompt, configuration.prompts_per_batch) in self.region

    def box(self) -> dict[str, BaseDistribution]:
        """Return what Optuna is to choose from."""
        from optuna.distributions import (
            CategoricalDistribution,
            FloatDistribution,
            IntDistribution,
        )

        region = self.region
        box: dict[str, BaseDistribution] = {
            name: IntDistribution(low, high) for name, low, high in zip((N, B), region.low, region.high, strict=True)
        }
        box |= {name: CategoricalDistribution(values) for name, values in self.named.items()}
        if self.learning_rates:
            box[LEARNING_RATE] = FloatDistribution(*self.learning_rates, log=True)
        return box

    def bounds(self) -> dict[str, list[Value]]:
        """Return the box as it is stored."""
        region = self.region
        bounds: dict[str, list[Value]] = {N: [region.low[0], region.high[0]], B: [region.low[1], region.high[1]]}
        bounds |= {name: list(values) for name, values in self.named.items()}
        return bounds | ({LEARNING_RATE: [*self.learning_rates]} if self.learning_rates else {})

    def parameters(self, configuration: Configuration) -> dict[str, Any]:
        """Return a configuration of the space as Optuna knows it."""
        n, prompts = octaves((configuration.rollouts_per_prompt, configuration.prompts_per_batch))
        found: dict[str, Any] = {N: round(n), B: round(prompts)}
        found |= {name: value_of(configuration.axes, name) for name in self.named}
        if self.learning_rates:
            found[LEARNING_RATE] = value_of(configuration.axes, LEARNING_RATE)
        return found

    def wish(self, suggested: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a sampler suggested as it is stored, the learning rate as it is run."""
        wish = {N: float(suggested[N]), B: float(suggested[B]), **{name: suggested[name] for name in self.named}}
        if self.learning_rates:
            wish[LEARNING_RATE] = rounded_rate(float(suggested[LEARNING_RATE]), self.learning_rates)
        return wish

    def nearest(self, cells: Sequence[OpenCell], wish: Mapping[str, Any]) -> list[OpenCell]:
        """Return open cells, first those that agree in more of the named axes, and of these the nearest ones."""

        def order(cell: OpenCell) -> tuple[int, float, float, tuple[int, int]]:
            own = dict(cell.axes)
            differing = sum(own.get(name) != wish[name] for name in self.named)
            return differing, math.dist(octaves(cell.cell), (wish[N], wish[B])), cell.price, cell.cell

        return sorted(cells, key=order)

    def chosen(self, cell: OpenCell, wish: Mapping[str, Any]) -> Configuration:
        """Return the configuration of an open cell, with the suggested learning rate where that is searched for."""
        axes = with_rate(cell.axes, wish[LEARNING_RATE]) if self.learning_rates else cell.axes
        return cell.configuration._replace(axes=axes)
