"""Makes observations of a Brownian motion in noise independent: the Kalman filter, as a matrix per curve.

The discrepancy δ(t) starts at 0 and has variance drift²·t; a bin sees it with noise. Row i of the matrix gives the
standardised innovation of bin i as a linear function of all bins, so that W·y is white, WᵀW is the inverse covariance,
and the same matrix serves every basis function. The recursion runs over bins, as array operations over all curves.
"""

from dataclasses import dataclass

import numpy as np

from planner.curves.curve import Vector


@dataclass(frozen=True)
class Whitening:
    """Matrices (n, h, m, m) for n curves and h pairs of drift and noise, and log determinants of the covariances."""

    matrix: Vector
    log_determinant: Vector


def whitening(time: Vector, variance: Vector, drift: Vector) -> Whitening:
    """Run the filter on unit vectors; an infinite variance is a bin without an observation."""
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
    return Whitening(matrix, log_determinant)
