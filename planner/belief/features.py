"""How a configuration becomes numbers, what is believed of their weight, and which lie in the midst of others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.axes import MODEL, value_of, value_or_neutral
from planner.curves.curve import Vector
from planner.view import Configuration

LOCALS = 3
# Mean and standard deviation of the intercepts: logit A, log(C_mid / target), log B.
INTERCEPTS = ((0.7, 1.2), (-2.0, 0.8), (0.5, 0.3))
# Where logit A and log C_mid may lie in place of their means, each as wide: a normal about one pair alone is far too
# narrow where curves have hardly risen, for what is left open then is bent.
LOGIT_ASYMPTOTES, ASYMPTOTE_WEIGHTS = (-1.6, 0.7, 3.0), (0.3, 0.4, 0.3)
LOG_MIDPOINTS, MIDPOINT_WEIGHTS = (-3.6, -2.0, -0.6), (0.3, 0.4, 0.3)
LEVELS: Vector = np.array([[top, middle] for top in LOGIT_ASYMPTOTES for middle in LOG_MIDPOINTS])
LEVEL_WEIGHTS: Vector = np.outer(ASYMPTOTE_WEIGHTS, MIDPOINT_WEIGHTS).ravel()
# Standard deviations per half of the grid's width: slope, curvature, product.
SLOPES = (0.4, 0.6, 0.15)
CURVATURES = (0.2, 0.4, 0.0)
CURVATURE_MEANS = (-0.2, 0.2, 0.0)  # in the midst of a grid runs end higher, and rise sooner
PRODUCTS = (0.3, 0.3, 0.0)
OF_A_NAME = (0.6, 0.6, 0.2)  # what a recipe or a model may shift


@dataclass(frozen=True)
class Features:
    """configurations × (logit A, log C_mid, log B) × coefficients, and the coefficients' prior."""

    design: Vector
    mean: Vector
    sd: Vector
    top: int  # the coefficients that are the intercepts of logit A and of log C_mid
    middle: int
    base_model: NDArray[np.intp]  # of each configuration: those of one base model begin with one score
    levels: Vector  # (l, 2): where the common logit A and log(C_mid / target) may lie
    level_weights: Vector


@dataclass(frozen=True)
class _Column:
    values: Vector
    means: tuple[float, float, float]
    sds: tuple[float, float, float]


def features(configurations: Sequence[Configuration]) -> Features:
    """Return a quadratic in (log n, log B) and in further numeric axes, and a shift for each value of the others."""
    axes = _axes(configurations)
    columns = _columns(axes, len(configurations))
    blocks, means, sds = [], [], []
    for local in range(LOCALS):
        used = [column for column in columns if column.sds[local] > 0]
        block = np.zeros((len(configurations), LOCALS, len(used)))
        for place, column in enumerate(used):
            block[:, local, place] = column.values
            means.append(column.means[local])
            sds.append(column.sds[local])
        blocks.append(block)
    return Features(
        np.concatenate(blocks, axis=2),
        np.array(means),
        np.array(sds),
        0,
        blocks[0].shape[2],
        np.unique([str(value_of(configuration.axes, MODEL)) for configuration in configurations], return_inverse=True)[
            1
        ],
        LEVELS,
        LEVEL_WEIGHTS,
    )


def places(configurations: Sequence[Configuration]) -> Vector:
    """Return configurations as points: numeric axes from −1 to 1, and each value of the others as far apart."""
    axes = _axes(configurations)
    columns = [
        *axes.lines,
        *(share for values in axes.names for share in _shares(values)),
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((len(configurations), 1))


@dataclass(frozen=True)
class _Axes:
    lines: list[Vector]  # where the configurations lie on each numeric axis
    names: list[list[str]]  # the value of each configuration on each of the others


def _columns(axes: _Axes, count: int) -> list[_Column]:
    means, sds = zip(*INTERCEPTS, strict=True)
    columns = [_Column(np.ones(count), means, sds)]
    for place, at in enumerate(axes.lines):
        columns.append(_Column(at, (0.0, 0.0, 0.0), SLOPES))
        columns.append(_Column(at**2 - 1 / 3, CURVATURE_MEANS, CURVATURES))
        columns += [_Column(at * across, (0.0, 0.0, 0.0), PRODUCTS) for across in axes.lines[:place]]
    for values in axes.names:
        if len(set(values)) > 1:
            columns += [_Column(share, (0.0, 0.0, 0.0), OF_A_NAME) for share in _shares(values)]
    return columns


def _shares(values: list[str]) -> list[Vector]:
    """Return for each kind among the values which of them are of it."""
    return [np.array([float(value == kind) for value in values]) for kind in sorted(set(values))]


def _axes(configurations: Sequence[Configuration]) -> _Axes:
    """Split axes into numbers from −1 to 1, by their logarithm where they are positive, and names.

    Numbers of which there is but one are left out.
    """
    raw: dict[str, list[str | float]] = {
        "n": [float(configuration.rollouts_per_prompt) for configuration in configurations],
        "B": [float(configuration.prompts_per_batch) for configuration in configurations],
    }
    for name in sorted({name for configuration in configurations for name, _ in configuration.axes}):
        on_axis = (value_or_neutral(configuration.axes, name) for configuration in configurations)
        raw[name] = ["" if value is None else value for value in on_axis]
    axes = _Axes([], [])
    for values in raw.values():
        if not all(isinstance(value, int | float) for value in values):
            axes.names.append([str(value) for value in values])
            continue
        positive = all(float(value) > 0 for value in values)
        numbers = np.array([math.log2(float(value)) if positive else float(value) for value in values])
        low, high = float(numbers.min()), float(numbers.max())
        if high - low >= 1e-9:
            axes.lines.append(2 * (numbers - low) / (high - low) - 1)
    return axes


def spread_out(configurations: Sequence[Configuration], number: int) -> list[int]:
    """Return so many of them in order, each lowering the squared distances to the nearest chosen one the most."""
    if not configurations:
        return []
    points = places(configurations)
    distance = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    nearest = np.full(len(points), np.inf)
    chosen: list[int] = []
    for _ in range(min(number, len(points))):
        total = np.minimum(nearest, distance).sum(axis=1)
        total[chosen] = np.inf
        pick = int(np.argmin(total))
        chosen.append(pick)
        nearest = np.minimum(nearest, distance[pick])
    return chosen
