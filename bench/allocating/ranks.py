"""Whether curves cross: how the order of the cells early in training compares with their order at the end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import spearmanr

from .surface import by_cell, common_end, score_at
from .table import Run

NOTABLE = 0.02


@dataclass(frozen=True)
class Crossing:
    """The order at a part of the compute against that at the end."""

    part: float
    correlation: float  # Spearman's, of cells' means
    crossed: float  # of the pairs of cells that differ by NOTABLE at both computes, how many change order
    regret_of_cells: float  # the end score that the early best cell falls short of the best, by means over seeds
    regret_of_seeds: float  # the same, chosen by one seed and judged by the others; NaN with one seed


def crossings(runs: Sequence[Run], parts: Sequence[float]) -> list[Crossing]:
    """Compare the order at each part of the common compute with that at its end."""
    end = common_end(runs)
    late = _matrix(runs, end)
    return [_crossing(part, _matrix(runs, part * end), late) for part in parts]


def _matrix(runs: Sequence[Run], at: float) -> np.ndarray:
    """Return scores (cells, seeds), NaN where a seed is missing."""
    seeds = sorted({run.seed for run in runs})
    cells = by_cell(runs)
    found = np.full((len(cells), len(seeds)), np.nan)
    for row, members in enumerate(cells.values()):
        for run in members:
            found[row, seeds.index(run.seed)] = score_at(run, at)
    return found


def _crossing(part: float, early: np.ndarray, late: np.ndarray) -> Crossing:
    first, last = np.nanmean(early, axis=1), np.nanmean(late, axis=1)
    upper = np.triu_indices(len(first), 1)
    before, after = (np.subtract.outer(each, each)[upper] for each in (first, last))
    clear = (np.abs(before) >= NOTABLE) & (np.abs(after) >= NOTABLE)
    crossed = float(np.mean(np.sign(before[clear]) != np.sign(after[clear]))) if clear.any() else float("nan")
    return Crossing(
        part=part,
        correlation=float(spearmanr(first, last).statistic),
        crossed=crossed,
        regret_of_cells=float(last.max() - last[first.argmax()]),
        regret_of_seeds=_regret_of_seeds(early, late),
    )


def _regret_of_seeds(early: np.ndarray, late: np.ndarray) -> float:
    """Choose by one seed's early scores, and judge by the other seeds, to whom the choice owes nothing."""
    regrets = []
    for seed in range(early.shape[1]):
        others = np.delete(late, seed, axis=1)
        known = np.isfinite(early[:, seed]) & np.isfinite(others).any(axis=1)
        if others.size and known.any():
            judged = np.nanmean(others[known], axis=1)
            regrets.append(float(judged.max() - judged[early[known, seed].argmax()]))
    return float(np.mean(regrets)) if regrets else float("nan")
