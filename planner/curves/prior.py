"""What is believed of a curve before its points are seen.

The mean function is one of: the sigmoid R0 + gain / (1 + (C_mid/C)^B) on a grid of (B, C_mid), a line in log C, or
a constant. On top of it lies a Brownian discrepancy in log C, which lets real curves have shoulders and slides and
makes the interval grow with the extrapolation. The numbers were chosen by the benchmark (docs/concepts/curves.md), on
shapes of curves and not on single ones.
"""

from dataclasses import dataclass, field

import numpy as np

from planner.curves.curve import Vector

VISIBLE_UNTIL = 0.4  # log compute beyond the last point, up to which a rise's foot shows before it


@dataclass(frozen=True)
class Prior:
    """Grids, weights and scales; compute is relative to the last point, scores to the curve's scale."""

    exponents: tuple[float, ...] = (0.5, 0.8, 1.2, 1.8, 2.8, 4.5, 7.5, 13.0)
    # Steep rises are given more weight than their share of runs: where nothing has happened yet, they carry the chance
    # of a late start, and where something has, the points decide.
    exponent_weights: tuple[float, ...] = (0.3, 0.4, 0.6, 0.8, 1.2, 1.6, 2.2, 3.0)
    earliest_midpoint: float = 0.02
    latest_midpoint: float = 12.0
    coarsest_step: float = 0.4
    step_of_width: float = 1.3
    share_sigmoid: float = 0.80
    share_line: float = 0.15
    share_constant: float = 0.05
    # Gain A − R0: of the scale when that is [0, 1], else of the spread seen so far.
    gain_mean_bounded: float = 0.7
    gain_sd_bounded: float = 0.5
    gain_mean_unbounded: float = 1.0
    gain_sd_unbounded: float = 0.8
    start_sd: float = 0.5
    slope_mean: float = 0.015
    slope_sd: float = 0.012
    # Standard deviations of the discrepancy per unit of log C; beyond the last point they count `future_drift` times,
    # because within the window the mean function has taken up part of it.
    drifts: tuple[float, ...] = (0.012, 0.035, 0.10, 0.28)
    drift_weights: tuple[float, ...] = (1.0, 1.5, 1.0, 0.5)
    future_drift: float = 2.0
    noise_factors: tuple[float, ...] = (0.88, 1.5)
    # The chance of something that no earlier point announces (collapse, slide, second rise), far beyond the window.
    surprise: float = 0.13
    surprise_sd: float = 0.30

    grid_exponent: Vector = field(init=False, repr=False, compare=False)
    grid_midpoint: Vector = field(init=False, repr=False, compare=False)
    log_weights: Vector = field(init=False, repr=False, compare=False)  # of the grid, the line and the constant
    log_hyper_weights: Vector = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        exponents, midpoints, log_weights = [], [], []
        shares = np.asarray(self.exponent_weights, dtype=float) / np.sum(self.exponent_weights)
        first, last = np.log(self.earliest_midpoint), np.log(self.latest_midpoint)
        unseen = np.arange(VISIBLE_UNTIL + self.coarsest_step, last, self.coarsest_step)
        for exponent, share in zip(self.exponents, shares, strict=True):
            # By the width of the rise, 1/B, where points may have seen it, and coarsely beyond.
            step = min(self.coarsest_step, self.step_of_width / exponent)
            grid = np.concatenate([np.arange(VISIBLE_UNTIL, first - 1e-9, -step)[::-1], unseen])
            # Each midpoint stands for the stretch of log C around it, so that a finer grid is no stronger prior.
            width = np.gradient(grid)
            exponents.append(np.full(len(grid), exponent))
            midpoints.append(grid)
            log_weights.append(np.log(self.share_sigmoid * share * width / width.sum()))
        object.__setattr__(self, "grid_exponent", np.concatenate(exponents))
        object.__setattr__(self, "grid_midpoint", np.concatenate(midpoints))
        log_weights.append(np.log([self.share_line, self.share_constant]))
        object.__setattr__(self, "log_weights", np.concatenate(log_weights))
        hyper = np.repeat(np.asarray(self.drift_weights, dtype=float), len(self.noise_factors))
        object.__setattr__(self, "log_hyper_weights", np.log(hyper / hyper.sum()))

    @property
    def grid_size(self) -> int:
        """How many pairs (B, C_mid) the grid has."""
        return len(self.grid_exponent)
