"""A table of recorded runs as a peer sees it: levels of GPU-hours, what reaching them costs, and the scores there.

The files of this folder run in an environment of the peers' own (`.venv-peers`) and import nothing of ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

FINEST = 81  # levels at most; ASHA's and Hyperband's smallest is the 27th part
ROUNDING = 1e-9
Value = str | float


@dataclass(frozen=True)
class SweepState:
    """Configurations by number with the values of their axes, and for each its runs as (GPU-hours, scores)."""

    configurations: Sequence[dict[str, Value]]
    runs: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]]
    target: float

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> "SweepState":
        """Read what bench/deciding/tasking.py writes."""
        runs = [[(np.array(hours), np.array(scores)) for hours, scores in seeds] for seeds in document["runs"]]
        return cls(document["configurations"], runs, document["target"])

    def shuffled(self, seed: int) -> "SweepState":
        """Return the same with every configuration's runs in an order that is drawn."""
        rng = np.random.default_rng(seed)
        runs = [[seeds[i] for i in rng.permutation(len(seeds))] for seeds in self.runs]
        return SweepState(self.configurations, runs, self.target)

    @cached_property
    def axes(self) -> dict[str, list[Value]]:
        """The values of every axis: numbers in their order, words in theirs."""
        names = {name: None for values in self.configurations for name in values}
        return {
            name: sorted({values[name] for values in self.configurations if name in values}, key=_order)
            for name in names
        }

    @cached_property
    def places(self) -> np.ndarray:
        """Configurations × axes: the place of each value on its axis."""
        return np.array(
            [[values_of.index(one[name]) for name, values_of in self.axes.items()] for one in self.configurations]
        )

    def is_ordered(self, axis: str) -> bool:
        """Whether an axis holds numbers."""
        return not isinstance(self.axes[axis][0], str)

    def nearest(self, places: Sequence[int], rng: np.random.Generator) -> int:
        """Return a configuration that was recorded for places on the axes, the nearest where they have none.

        A word that differs counts as far as the whole length of an axis.
        """
        away = np.abs(self.places - np.asarray(places)).astype(float)
        for column, axis in enumerate(self.axes):
            if not self.is_ordered(axis):
                away[:, column] = 100.0 * (away[:, column] > 0)
        total = away.sum(axis=1)
        return int(rng.choice(np.flatnonzero(total <= total.min())))


class Levels:
    """The resource of a multi-fidelity method: whole numbers from 1 to `most`, equal shares of GPU-hours.

    A level is no finer than the distance of a table's points. A level without any point yet is reached at the first
    one; beyond a run's end nothing costs anything.
    """

    def __init__(self, board: SweepState, reach: float) -> None:
        """Cut `reach` times the target into levels."""
        self._board = board
        whole = reach * board.target
        spacing = float(np.median([np.median(np.diff(hours)) for seeds in board.runs for hours, _ in seeds]))
        unit = max(spacing, whole / FINEST)
        self.most = max(1, round(whole / unit))
        self.least = max(1, round(self.most / 27))
        self._unit = whole / self.most

    def hours(self, configuration: int, run: int, level: float) -> float:
        """Return the GPU-hours of training that end at a level."""
        at = self._board.runs[configuration][run][0]
        return float(min(max(level * self._unit, at[0]), at[-1], max(self._board.target, at[0])))

    def score(self, configuration: int, run: int, level: float) -> float:
        """Return the last score at or before a level."""
        at, scores = self._board.runs[configuration][run]
        return float(scores[_seen(at, self.hours(configuration, run, level)) - 1])


def recent(board: SweepState, configuration: int, run: int, hours: float) -> float:
    """Return the mean of the last three points of a run that was trained for so long."""
    at, scores = board.runs[configuration][run]
    seen = _seen(at, hours)
    return float(scores[max(0, seen - 3) : seen].mean())


def _seen(at: np.ndarray, hours: float) -> int:
    return int(np.searchsorted(at, hours * (1 + ROUNDING), side="right"))


def _order(value: Value) -> tuple[bool, Value]:
    return isinstance(value, str), value
