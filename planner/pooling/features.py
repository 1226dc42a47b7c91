"""How a configuration becomes numbers, what is believed of their weight, and which lie in the midst of others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.curves.curve import Vector
from planner.view import Configuration

TOP, MIDDLE, STEEPNESS = 0, 1, 2
# Mean and standard deviation of the intercepts: logit A, log(C_mid / target), log B.
INTERCEPTS = ((0.7, 1.2), (-2.0, 0.8), (0.5, 0.3))
# Standard deviations per half of the grid's width: slope, curvature, product.
SLOPES = (0.4, 0.6, 0.15)
CURVATURES = (0.4, 0.4, 0.0)
CURVATURE_MEANS = (-0.2, 0.0, 0.0)
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


@dataclass(frozen=True)
class _Column:
    values: Vector
    means: tuple[float, float, float]
    sds: tuple[float, float, float]


def features(configurations: Sequence[Configuration]) -> Features:
    """Return a quadratic in (log n, log B) and in further numeric axes, and a shift for each value of the others."""
    columns = _columns(configurations)
    blocks, means, sds = [], [], []
    for local in range(3):
        used = [column for column in columns if column.sds[local] > 0]
        block = np.zeros((len(configurations), 3, len(used)))
        for place, column in enumerate(used):
            block[:, local, place] = column.values
            means.append(column.means[local])
            sds.append(column.sds[local])
        blocks.append(block)
    return Features(np.concatenate(blocks, axis=2), np.array(means), np.array(sds), 0, blocks[0].shape[2])


def places(configurations: Sequence[Configuration]) -> Vector:
    """Return configurations as points: numeric axes from −1 to 1, and each value of the others as far apart."""
    lines, names = _axes(configurations)
    columns = [*lines, *(share for values in names for share in _shares(values))]
    return np.stack(columns, axis=1) if columns else np.zeros((len(configurations), 1))


def _columns(configurations: Sequence[Configuration]) -> list[_Column]:
    ones = np.ones(len(configurations))
    means, sds = zip(*INTERCEPTS, strict=True)
    columns = [_Column(ones, means, sds)]
    lines, names = _axes(configurations)
    for place, line in enumerate(lines):
        columns.append(_Column(line, (0.0, 0.0, 0.0), SLOPES))
        columns.append(_Column(line**2 - 1 / 3, CURVATURE_MEANS, CURVATURES))
        columns += [_Column(line * other, (0.0, 0.0, 0.0), PRODUCTS) for other in lines[:place]]
    for values in names:
        if len(set(values)) > 1:
            columns += [_Column(share, (0.0, 0.0, 0.0), OF_A_NAME) for share in _shares(values)]
    return columns


def _shares(values: list[str]) -> list[Vector]:
    """Return for each kind among the values which of them are of it."""
    return [np.array([float(value == kind) for value in values]) for kind in sorted(set(values))]


def _axes(configurations: Sequence[Configuration]) -> tuple[list[Vector], list[list[str]]]:
    """Split axes into numbers from −1 to 1, by their logarithm where they are positive, and names.

    Numbers of which there is but one are left out.
    """
    raw: dict[str, list[str | float]] = {
        "n": [float(each.rollouts_per_prompt) for each in configurations],
        "B": [float(each.prompts_per_batch) for each in configurations],
    }
    for name in sorted({name for each in configurations for name, _ in each.axes}):
        raw[name] = [dict(each.axes).get(name, "") for each in configurations]
    lines, names = [], []
    for values in raw.values():
        if not all(isinstance(value, int | float) for value in values):
            names.append([str(value) for value in values])
            continue
        positive = all(float(value) > 0 for value in values)
        numbers = np.array([math.log2(float(value)) if positive else float(value) for value in values])
        low, high = float(numbers.min()), float(numbers.max())
        if high - low >= 1e-9:
            lines.append(2 * (numbers - low) / (high - low) - 1)
    return lines, names


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
