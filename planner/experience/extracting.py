"""Reads the experience out of curves, by the same joint model that decides."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from budgets.errors import InputError
from planner.experience.experience import Experience, widened
from planner.pooling.features import features
from planner.pooling.model import JointModel
from planner.pooling.points import binned, stacked
from planner.pooling.pool import MOST_CURVES, MOST_RUNS
from planner.replaying.recorded import Recorded, order_of
from planner.view import Configuration, ScorePoint

LENGTH_QUANTILE = 0.1  # share of the runs that may end before the compute at which a table is read
FEWEST = 3  # configurations; fewer tell no slope along two axes

Curves = Sequence[tuple[Configuration, tuple[ScorePoint, ...]]]


def experience_of(name: str, curves: Curves, target_gpu_hours: float, about: Mapping[str, str]) -> Experience:
    """Fit a surface to curves, with slopes and products as free as sources need it; their order changes nothing."""
    # Of the curves that say something, in an order of their own, of each configuration the few longest.
    informative = [curve for curve in curves if any(point.gpu_hours > 0 for point in curve[1])]
    runs = [list(group) for _, group in groupby(sorted(informative, key=_order_of), key=itemgetter(0))]
    most = min(MOST_RUNS, max(1, MOST_CURVES // max(1, len(runs))))
    chosen = [curve for group in runs for curve in group[:most]]
    configurations = tuple(dict.fromkeys(configuration for configuration, _ in chosen))
    if len(configurations) < FEWEST:
        raise InputError(
            f"'{name}' has curves of {len(configurations)} configurations: at least {FEWEST} are needed to learn how "
            "scores depend on them; leave it out of what is learnt from"
        )
    smooth = features(configurations)
    smooth = replace(smooth, sd=widened(smooth))
    place = {configuration: number for number, configuration in enumerate(configurations)}
    of: NDArray[np.intp] = np.array([place[configuration] for configuration, _ in chosen], dtype=np.intp)
    points = stacked([binned(scores) for _, scores in chosen], target_gpu_hours)
    fit = JointModel(smooth, points, of).fit()
    # Over all members, the deviations of cells marginalised.
    number, mean = fit.coefficients.shape[1], fit.weights @ fit.coefficients
    within, away = np.linalg.inv(fit.shared)[:, :number, :number], fit.coefficients - mean
    covariance = np.einsum("h,hpq->pq", fit.weights, within) + np.einsum("h,hp,hq->pq", fit.weights, away, away)
    return Experience(
        name=name,
        lines=smooth.lines,
        terms=smooth.terms,
        mean=mean,
        covariance=0.5 * (covariance + covariance.T),
        prior_mean=smooth.mean,
        prior_sd=smooth.sd,
        target_gpu_hours=target_gpu_hours,
        start=float((fit.weights @ fit.start).mean()),
        configurations=len(configurations),
        curves=len(chosen),
        about=dict(about),
    )


def experience_of_runs(name: str, recorded: Recorded, about: Mapping[str, str]) -> Experience:
    """Read recorded runs at the compute that nine tenths of them reach."""
    reached = float(np.quantile([run.length for run in recorded.runs], LENGTH_QUANTILE))
    curves = []
    for run in recorded.runs:
        errors = [None] * len(run.scores) if run.standard_errors is None else run.standard_errors.tolist()
        points = zip(run.gpu_hours.tolist(), np.clip(run.scores, 0.0, 1.0).tolist(), errors, strict=True)
        scores = tuple(ScorePoint(step, *point) for step, point in enumerate(points))
        curves.append((run.configuration, scores))
    return experience_of(name, curves, reached, about)


def _order_of(curve: tuple[Configuration, tuple[ScorePoint, ...]]) -> tuple[object, ...]:
    configuration, scores = curve
    return order_of(configuration), -scores[-1].gpu_hours, [(point.gpu_hours, point.score) for point in scores]
