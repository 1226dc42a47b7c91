"""What a plan expects of its configurations, as a feature of the joint model: a surface.

By each study of the plan's prior a configuration's run is read as the model's own curve, (logit A, log C_mid, log B).
Their mean over the studies, less what all configurations have alike, is one feature, with weight 1 if the plan is right
and any other if curves say so.
Of the level the plan is uncertain by far more than of the differences: where each study has it is one more place where
all curves may lie. Where one study lets a run learn all and another nothing, none has it at their mean.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from scipy.special import expit

from planner.axes import LEARNING_RATE, without
from planner.belief.features import INTERCEPTS, Features
from planner.belief.points import STEEPEST, remaining_gain
from planner.curves.curve import Vector
from planner.view import PARTS, Configuration, PlanPrior

# Twice and half of each make no family that was held out likelier beyond noise (bench/results/decisions.md).
TRUST_SD: Final = 0.4  # of the weight of what the plan expects
PLAN_WEIGHT: Final = 0.5  # that curves lie about where the plan has them, and not somewhere
LEAST_WEIGHT: Final = 0.02  # of a study whose level counts: each is fitted
FREEDOM: Final = 0.5  # of what a model without a plan lets (n, B) do: the plan's own feature has the rest
GAIN_ERROR: Final = 0.005  # to which a study's curve is read

WIDTHS: Vector = np.array([1.5, 2.0, 0.5])  # of what it may be read as, about INTERCEPTS
ROUNDS: Final = 10
# A normal about each level in Gauss and Hermite's three nodes along each of logit A and log C_mid.
NODES: Vector = np.sqrt(3.0) * np.array([[top, middle] for top in (-1, 0, 1) for middle in (-1, 0, 1)])
NODE_WEIGHTS: Vector = np.outer((1 / 6, 2 / 3, 1 / 6), (1 / 6, 2 / 3, 1 / 6)).ravel()
STEPS, SMALL = 30, 1e-5  # of Levenberg's method, and of its differences


def with_plan_prior(smooth: Features, configurations: Sequence[Configuration], plan_prior: PlanPrior) -> Features:
    """Add what a plan expects to features of the same configurations; those that it has not get nothing."""
    # Where a configuration's own learning rate is new, the same at the rule's stands for it.
    by_rule = (
        configuration._replace(axes=without(configuration.axes, LEARNING_RATE)) for configuration in configurations
    )
    pairs = zip(configurations, by_rule, strict=True)
    all_gains = [plan_prior.gains.get(each, plan_prior.gains.get(rule)) for each, rule in pairs]
    priced = [place for place, gains in enumerate(all_gains) if gains is not None]
    if len(priced) < 2:
        return smooth
    gains, weights = np.array([all_gains[place] for place in priced]), np.array(plan_prior.weights)
    surfaces = read(gains)
    heights = surfaces.mean(axis=0)  # (studies, 3)
    surfaces -= heights
    likely = weights >= LEAST_WEIGHT
    levels = np.concatenate([smooth.levels, heights[likely, :2]])
    of_plan = PLAN_WEIGHT * weights[likely] / weights[likely].sum()
    level_weights = np.append((1 - PLAN_WEIGHT) * smooth.level_weights, of_plan)
    mean = np.tensordot(surfaces, weights, axes=(1, 0))
    mean = _ending_at(mean, gains[:, :, -1] @ weights, levels, level_weights)
    column = np.zeros((*smooth.design.shape[:2], 1))
    column[priced, :, 0] = mean
    level = (smooth.design == 1).all(axis=0).any(axis=0)
    return replace(
        smooth,
        design=np.concatenate([smooth.design, column], axis=2),
        mean=np.append(np.where(level, smooth.mean, 0.0), 1.0),
        sd=np.append(np.where(level, 1.0, FREEDOM) * smooth.sd, TRUST_SD),
        levels=levels,
        level_weights=level_weights,
    )


def _ending_at(surface: Vector, ends: Vector, levels: Vector, weights: Vector) -> Vector:
    """Return a surface with logit A such that, at the levels the model reckons with, ends differ as those given do."""
    surface, around = surface.copy(), levels[:, None] + NODES * [sd for _, sd in INTERCEPTS[:2]]
    at = np.insert(around.reshape(-1, 2), 2, INTERCEPTS[2][0], axis=1)
    weights = np.outer(weights, NODE_WEIGHTS).ravel()
    for _ in range(ROUNDS):
        local = surface + at[:, None]
        gained = _gain(local, np.zeros(1))[..., 0]
        slope = weights @ (gained * (1 - expit(local[..., 0])))
        short = ends - ends.mean() - (weights @ gained - (weights @ gained).mean())
        surface[:, 0] += np.clip(short / slope, -1, 1)
        surface[:, 0] -= surface[:, 0].mean()
    return surface


def read(gains: Vector) -> Vector:
    """Return (…, 3), the model's curves through gains at PARTS of the target, no stranger than they have to be."""
    log_x, means = np.log(PARTS), np.array([mean for mean, _ in INTERCEPTS])

    def misfit(local: Vector) -> Vector:
        short = (_gain(local, log_x) - np.clip(gains, 0.0, 1.0)) / GAIN_ERROR
        return np.concatenate([short, (local - means) / WIDTHS], axis=-1)

    local = np.broadcast_to(means, (*gains.shape[:-1], 3)).copy()
    rest = misfit(local)
    damping = np.full(gains.shape[:-1], 1e-2)
    for _ in range(STEPS):
        slopes = np.stack([(misfit(local + SMALL * direction) - rest) / SMALL for direction in np.eye(3)], axis=-1)
        bent = slopes.swapaxes(-1, -2) @ slopes
        bent += damping[..., None, None] * np.einsum("...ii->...i", bent)[..., None] * np.eye(3)
        step = np.linalg.solve(bent, slopes.swapaxes(-1, -2) @ rest[..., None])[..., 0]
        tried = local - np.clip(step, -1, 1)
        new = misfit(tried)
        better = (new**2).sum(axis=-1) < (rest**2).sum(axis=-1)
        local, rest = (np.where(better[..., None], a, b) for a, b in ((tried, local), (new, rest)))
        damping = np.clip(np.where(better, damping / 5, damping * 5), 1e-8, 1e8)
    return local


def _gain(local: Vector, log_x: Vector) -> Vector:
    steep = np.exp(np.clip(local[..., 2:], -STEEPEST, STEEPEST))
    return np.asarray(expit(local[..., :1]) * (1 - remaining_gain(steep * (log_x - local[..., 1:2]))))
