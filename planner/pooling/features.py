"""How a configuration becomes numbers, what is believed of their weight, and which lie in the midst of others."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from planner.curves.curve import Vector
from planner.view import Configuration

TOP, MIDDLE, STEEPNESS = 0, 1, 2
# Mean and standard deviation of the intercepts: logit A, log(C_mid / target), log B.
INTERCEPTS = ((0.6, 2.5), (-1.6, 0.9), (0.5, 0.3))
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
    middle: int  # the coefficient that is the intercept of log C_mid


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
    return Features(np.concatenate(blocks, axis=2), np.array(means), np.array(sds), blocks[0].shape[2])


def places(configurations: Sequence[Configuration]) -> Vector:
    """Return configurations as points: numeric axes from −1 to 1, and each value of the others as far apart."""
    numbers, names = _axes(configurations)
    columns = [scaled for values in numbers if (scaled := _scaled(values)) is not None]
    columns += [
        np.array([float(value == kind) for value in values]) for values in names for kind in sorted(set(values))
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((len(configurations), 1))


def _columns(configurations: Sequence[Configuration]) -> list[_Column]:
    ones = np.ones(len(configurations))
    means, sds = zip(*INTERCEPTS, strict=True)
    columns = [_Column(ones, means, sds)]
    numbers, names = _axes(configurations)
    lines = [scaled for values in numbers if (scaled := _scaled(values)) is not None]
    for place, line in enumerate(lines):
        columns.append(_Column(line, (0.0, 0.0, 0.0), SLOPES))
        columns.append(_Column(line**2 - 1 / 3, CURVATURE_MEANS, CURVATURES))
        columns += [_Column(line * other, (0.0, 0.0, 0.0), PRODUCTS) for other in lines[:place]]
    for values in names:
        kinds = sorted(set(values))
        if len(kinds) > 1:
            shares = [np.array([float(value == kind) for value in values]) for kind in kinds]
            columns += [_Column(share, (0.0, 0.0, 0.0), OF_A_NAME) for share in shares]
    return columns


def _axes(configurations: Sequence[Configuration]) -> tuple[list[Vector], list[list[str]]]:
    """Split axes into numbers, by their logarithm where they are positive, and names."""
    raw: dict[str, list[str | float]] = {
        "n": [float(each.rollouts_per_prompt) for each in configurations],
        "B": [float(each.prompts_per_batch) for each in configurations],
    }
    for name in sorted({name for each in configurations for name, _ in each.axes}):
        raw[name] = [dict(each.axes).get(name, "") for each in configurations]
    numbers, names = [], []
    for values in raw.values():
        if all(isinstance(value, int | float) for value in values):
            positive = all(float(value) > 0 for value in values)
            numbers.append(np.array([math.log2(float(value)) if positive else float(value) for value in values]))
        else:
            names.append([str(value) for value in values])
    return numbers, names


def _scaled(values: Vector) -> Vector | None:
    """Map the axis to −1 … 1; None when it has one value."""
    low, high = float(values.min()), float(values.max())
    return None if high - low < 1e-9 else 2 * (values - low) / (high - low) - 1


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
