"""The basis functions of a chunk of curves, whitened for every pair of drift and noise."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from planner.curves.curve import Vector
from planner.curves.preparation import Prepared
from planner.curves.prior import Prior


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
    matrix, log_determinant = whitening(time, prepared.variance[:, None, :] * factor[None, :, None] ** 2, drift)
    basis = basis_at(prepared.log_x, origin, prior)
    basis[:, 0] = 0.0
    columns = np.concatenate([np.ones_like(time)[..., None], prepared.score[..., None], basis], axis=2)
    return Design(
        origin=origin,
        time=time,
        drift=drift,
        matrix=matrix,
        whitened=matrix @ columns[:, None],
        log_determinant=log_determinant,
    )


def basis_at(log_x: Vector, origin: Vector, prior: Prior) -> Vector:
    """Return the sigmoids, the line and nothing at log x (n, …) relative to the last point; −∞ is before training."""
    sigmoid = expit(prior.grid_exponent * (log_x[..., None] - prior.grid_midpoint))
    start = origin if log_x.ndim == 1 else origin[:, None]
    line = np.maximum(log_x, start) - start
    return np.concatenate([sigmoid, line[..., None], np.zeros_like(line)[..., None]], axis=-1)


def whitening(time: Vector, variance: Vector, drift: Vector) -> tuple[Vector, Vector]:
    """Make observations of a Brownian motion in noise independent: the Kalman filter, run on unit vectors.

    Returned are matrices (n, h, m, m) for n curves and h pairs of drift and noise, and log determinants of the
    covariances (n, h).

    The discrepancy δ(t) starts at 0 and has variance drift²·t; a bin sees it with noise. Row i of the matrix gives the
    standardised innovation of bin i as a linear function of all bins, so that W·y is white, WᵀW is the inverse
    covariance, and the same matrix serves every basis function. An infinite variance is a bin without an observation.
    """
    n, h, m = variance.shape
    matrix = np.zeros((n, h, m, m))
    level = np.zeros((n, h, m))
    uncertainty = np.zeros((n, h))
    log_determinant = np.zeros((n, h))
    passed = np.diff(time, axis=1, prepend=time[:, :1])
    for i in range(m):
        uncertainty = uncertainty + drift**2 * passed[:, i : i + 1]
        seen = np.isfinite(variance[:, :, i])
        total = np.where(seen, uncertainty + variance[:, :, i], 1.0)
        innovation = -level
        innovation[:, :, i] += 1.0
        innovation = np.where(seen[:, :, None], innovation, 0.0)
        matrix[:, :, i, :] = innovation / np.sqrt(total)[:, :, None]
        log_determinant += np.where(seen, np.log(total), 0.0)
        gain = np.where(seen, uncertainty / total, 0.0)
        level = level + gain[:, :, None] * innovation
        uncertainty = uncertainty * (1 - gain)
    return matrix, log_determinant
