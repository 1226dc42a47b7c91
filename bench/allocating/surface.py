"""Scores of every cell at one compute, and the surface through them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .table import Cell, Run, Vector

BANDWIDTH = 0.1  # of the local line, in log compute
_REACH = 1.03  # a run counts as having a score a little beyond its last point


def common_end(runs: Iterable[Run], x: str = "gpu_hours") -> float:
    """Return the compute that every cell reaches with at least one seed."""
    return min(max(float(getattr(run, x)[-1]) for run in seeds) for seeds in by_cell(runs).values())


def long_enough(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that reach the common end: those whose GPU-hours ran out before it say nothing of ends."""
    listed = list(runs)
    end = common_end(listed)
    return [run for run in listed if run.gpu_hours[-1] * _REACH >= end]


def score_at(run: Run, at: float, x: str = "gpu_hours") -> float:
    """Return the run's score at a compute: a line through the points around it, weighed by their distance.

    NaN beyond its end. Before the first trained point the line goes back to the score before training.
    """
    compute = getattr(run, x)
    if at > _REACH * compute[-1]:
        return float("nan")
    trained = compute > compute[0] if compute.size > 1 else compute > 0
    if not trained.any() or at <= compute[trained][0]:
        return float(np.interp(at, compute, run.score))
    away = np.log(compute[trained] / at)
    score = run.score[trained]
    # Where points are farther apart than the bandwidth, as early in a run, the two nearest decide.
    width = max(BANDWIDTH, float(np.sort(np.abs(away))[: min(2, away.size)][-1]))
    weight = np.exp(-0.5 * (away / width) ** 2)
    mean = np.average(away, weights=weight)
    spread = np.average((away - mean) ** 2, weights=weight)
    middle = np.average(score, weights=weight)
    if spread < 1e-12:
        return float(middle)
    slope = np.average((away - mean) * (score - middle), weights=weight) / spread
    return float(np.clip(middle - slope * mean, score.min(), score.max()))


def by_cell(runs: Iterable[Run]) -> dict[Cell, list[Run]]:
    """Return the runs of each cell, in the order of n and B."""
    cells: dict[Cell, list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.n, run.B, run.seed)):
        cells.setdefault(run.cell, []).append(run)
    return cells


def scores_at(runs: Iterable[Run], at: float, x: str = "gpu_hours") -> dict[Cell, Vector]:
    """Return the scores of the seeds of each cell at a compute, without cells that do not reach it."""
    found = {cell: np.array([score_at(run, at, x) for run in seeds]) for cell, seeds in by_cell(runs).items()}
    kept = {cell: scores[np.isfinite(scores)] for cell, scores in found.items()}
    return {cell: scores for cell, scores in kept.items() if scores.size}


def pooled_sd(scores: Mapping[Cell, Vector]) -> float:
    """Return the standard deviation between seeds of a cell, over all cells; NaN with one seed each."""
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in scores.values())
    freedom = sum(each.size - 1 for each in scores.values())
    return float(np.sqrt(squares / freedom)) if freedom else float("nan")


def means(scores: Mapping[Cell, Vector]) -> tuple[Vector, Vector]:
    """Return (log2 n, log2 B) of each cell as rows, and the mean of its seeds."""
    return np.log2(np.array(list(scores), dtype=float)), np.array([each.mean() for each in scores.values()])


def quadratic(logs: Vector) -> Vector:
    """Return a quadratic's features of one or two coordinates."""
    columns = [np.ones(len(logs)), *logs.T, *(logs**2).T]
    if logs.shape[1] == 2:
        columns.append(logs[:, 0] * logs[:, 1])
    return np.column_stack(columns)


def explained_out_of_sample(logs: Vector, values: Vector) -> float:
    """Return the part of the variance that a quadratic predicts for a cell that is left out of its fit."""
    features = quadratic(logs)
    hat = features @ np.linalg.pinv(features)
    residuals = (values - hat @ values) / np.maximum(1e-9, 1 - np.diag(hat))
    return float(1 - np.sum(residuals**2) / np.sum((values - values.mean()) ** 2))


class Optimum(NamedTuple):
    """The best n at one compute: of the best cell, of the best cell of the fitted surface, and how sure that is."""

    compute: float
    cell: Cell
    score: float
    surface_cell: Cell
    low: float
    high: float
    tied: int  # cells whose mean is within 0.02 of the best


def optimum(runs: Sequence[Run], at: float, x: str = "gpu_hours", draws: int = 400, level: float = 0.9) -> Optimum:
    """Return the best n at a compute.

    Its interval comes from surfaces redrawn with the residuals' standard deviation, in which the noise between seeds
    and what a quadratic cannot follow are both contained.
    """
    scores = scores_at(runs, at, x)
    logs, values = means(scores)
    cells = list(scores)
    best = int(values.argmax())
    features = quadratic(logs)
    project = features @ np.linalg.pinv(features)
    fitted = project @ values
    sd = np.sqrt(np.sum((values - fitted) ** 2) / max(1, values.size - features.shape[1]))
    drawn = (values + np.random.default_rng(0).normal(0, sd, size=(draws, values.size))) @ project.T
    low, high = np.quantile(np.array(cells)[drawn.argmax(axis=1), 0], ((1 - level) / 2, (1 + level) / 2))
    return Optimum(
        compute=at,
        cell=cells[best],
        score=float(values[best]),
        surface_cell=cells[int(fitted.argmax())],
        low=float(low),
        high=float(high),
        tied=int((values >= values[best] - 0.02).sum()),
    )
