"""What moves the score at one compute: n, B, their product, the seed; and whether a law of n*(C) can be fitted."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.allocating.frontiers import Frontier, OptimalGroup, OptimalGroupFit, frontier
from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.fitting import fit_curves
from planner.curves.verdicts import Verdict

from .surface import common_end, explained_out_of_sample, means, pooled_sd, scores_at
from .table import Cell, Run, Vector


@dataclass(frozen=True)
class Effects:
    """Of cells' mean scores at one compute: what predicts them, and what an octave is worth."""

    compute: float
    best: float
    spread: float  # standard deviation between cells
    seed_sd: float
    explained: dict[str, float]  # by a quadratic of these coordinates, for cells left out
    per_octave_group: float  # at fixed B, of a plane
    per_octave_prompts: float  # at fixed n


def effects(runs: Sequence[Run], at: float) -> Effects:
    """Describe the cells at a compute."""
    scores = scores_at(runs, at)
    logs, values = means(scores)
    coordinates = {"n": logs[:, :1], "B": logs[:, 1:], "n·B": logs.sum(axis=1, keepdims=True), "n and B": logs}
    plane, *_ = np.linalg.lstsq(np.column_stack([np.ones(len(logs)), logs]), values, rcond=None)
    return Effects(
        compute=at,
        best=float(values.max()),
        spread=float(values.std()),
        seed_sd=pooled_sd(scores),
        explained={name: explained_out_of_sample(each, values) for name, each in coordinates.items()},
        per_octave_group=float(plane[1]),
        per_octave_prompts=float(plane[2]),
    )


def at_fixed_product(runs: Sequence[Run], at: float) -> dict[int, dict[Cell, float]]:
    """Return the mean score of each cell at a compute, under its n·B."""
    found: dict[int, dict[Cell, float]] = {}
    for cell, scores in scores_at(runs, at).items():
        found.setdefault(cell[0] * cell[1], {})[cell] = float(scores.mean())
    return dict(sorted(found.items()))


def verdicts(runs: Sequence[Run]) -> dict[Verdict, list[Run]]:
    """Return the runs under the verdict on their whole curve."""
    found: dict[Verdict, list[Run]] = {}
    for run, fit in zip(runs, fit_curves([run.curve() for run in runs]), strict=True):
        found.setdefault(fit.verdict, []).append(run)
    return found


def farthest_falls(runs: Sequence[Run]) -> list[tuple[float, Run]]:
    """Return how far each run's end (its last tenth) lies below its best mean over as many points, most first."""
    falls = []
    for run in runs:
        width = max(3, run.score.size // 10)
        running = np.convolve(run.score, np.ones(width) / width, mode="valid")
        falls.append((float(running.max() - running[-1]), run))
    return sorted(falls, key=lambda each: -each[0])


def study_law(runs: Sequence[Run]) -> OptimalGroupFit | str:
    """Fit n*(C) by the study's own steps, all runs of an n pooled, against rollouts; else say why it cannot be."""
    groups: dict[int, list[Curve]] = {}
    for run in runs:
        groups.setdefault(run.n, []).append(run.curve("rollouts"))
    try:
        return OptimalGroup().fit(frontier(groups))
    except InputError as reason:
        return str(reason)


def best_cell_law(runs: Sequence[Run], x: str = "rollouts") -> tuple[OptimalGroupFit | str, Frontier]:
    """Fit n*(C) to the n of the best cell (mean over seeds) at each compute; else say why it cannot be."""
    compute = np.geomspace(common_end(runs, x) / 32, common_end(runs, x), 60)
    groups, best = [], []
    for at in compute:
        scores = {cell: float(each.mean()) for cell, each in scores_at(runs, float(at), x).items()}
        winner = max(scores, key=lambda cell: scores[cell])
        groups.append(winner[0])
        best.append(scores[winner])
    reached = Frontier(compute, np.array(best), np.array(groups, dtype=np.int64))
    try:
        return OptimalGroup().fit(reached), reached
    except InputError as reason:
        return str(reason), reached


def recipe_differences(
    runs: Sequence[Run], at: float, x: str = "gpu_hours"
) -> dict[str, tuple[dict[Cell, float], float, float]]:
    """Return for each recipe its mean score by cell, and over the cells common to all its mean and standard error."""
    recipes = sorted({run.recipe for run in runs})
    scores = {recipe: scores_at([run for run in runs if run.recipe == recipe], at, x) for recipe in recipes}
    common = sorted(set.intersection(*(set(each) for each in scores.values())))
    found = {}
    for recipe, each in scores.items():
        values: Vector = np.array([each[cell].mean() for cell in common])
        sd = pooled_sd({cell: each[cell] for cell in common})
        error = sd / np.sqrt(sum(each[cell].size for cell in common))
        found[recipe] = ({cell: float(each[cell].mean()) for cell in common}, float(values.mean()), float(error))
    return found
