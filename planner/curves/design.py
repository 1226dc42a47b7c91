"""The basis functions of a chunk of curves, whitened for every pair of drift and noise."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from planner.curves.curve import Vector
from planner.curves.preparation import Prepared
from planner.curves.prior import Prior
from planner.curves.whitening import whitening


@dataclass(frozen=True)
class Design:
    """Whitened columns (n, h, m, 2 + c): one, the scores, then the basis; and what whitened them."""

    origin: Vector
    time: Vector
    drift: Vector
    matrix: Vector
    whitened: Vector
    log_determinant: Vector


def design_of(prepared: Prepared, prior: Prior) -> Design:
    """Lay out the columns of every curve's bins, and whiten them."""
    drift, factor = (part.ravel() for part in np.meshgrid(prior.drifts, prior.noise_factors, indexing="ij"))
    origin = prepared.log_x[:, 0]
    time = prepared.log_x - origin[:, None]
    white = whitening(time, prepared.variance[:, None, :] * factor[None, :, None] ** 2, drift)
    basis = basis_at(prepared.log_x, origin, prior)
    basis[:, prepared.at_zero] = 0.0
    columns = np.concatenate([np.ones_like(time)[..., None], prepared.score[..., None], basis], axis=2)
    return Design(
        origin=origin,
        time=time,
        drift=drift,
        matrix=white.matrix,
        whitened=white.matrix @ columns[:, None],
        log_determinant=white.log_determinant,
    )


def basis_at(log_x: Vector, origin: Vector, prior: Prior) -> Vector:
    """Return the sigmoids, the line and nothing at log x (n, …) relative to the last point; −∞ is before training."""
    sigmoid = expit(prior.grid_exponent * (log_x[..., None] - prior.grid_midpoint))
    start = origin if log_x.ndim == 1 else origin[:, None]
    line = np.maximum(log_x, start) - start
    return np.concatenate([sigmoid, line[..., None], np.zeros_like(line)[..., None]], axis=-1)
