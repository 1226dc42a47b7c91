"""The prior as it stands for each curve of a batch: by itself the same for all, pooled by what its neighbours say."""

from dataclasses import dataclass

import numpy as np

from planner.curves.curve import Vector
from planner.curves.preparation import Prepared
from planner.curves.prior import Prior

EARLY_BINS = 3


@dataclass(frozen=True)
class Beliefs:
    """Normal priors of the gain and log weights, (n, c) for n curves and c basis functions; and where R0 is centred."""

    start_mean: Vector
    gain_mean: Vector
    gain_sd: Vector
    log_weight: Vector

    @classmethod
    def of(cls, prepared: Prepared, prior: Prior) -> "Beliefs":
        """Return the beliefs about curves of which nothing else is known."""
        n, size, bounded = prepared.curves, prior.grid_size, prepared.bounded[:, None]
        mean = np.repeat(np.where(bounded, prior.gain_mean_bounded, prior.gain_mean_unbounded), size, axis=1)
        sd = np.repeat(np.where(bounded, prior.gain_sd_bounded, prior.gain_sd_unbounded), size, axis=1)
        shares = np.log([prior.share_line, prior.share_constant])
        log_weight = np.concatenate([prior.grid_log_weight + np.log(prior.share_sigmoid), shares])
        return cls(
            start_mean=_first_scores(prepared),
            gain_mean=np.hstack([mean, np.tile([prior.slope_mean, 0.0], (n, 1))]),
            gain_sd=np.hstack([sd, np.tile([prior.slope_sd, 1.0], (n, 1))]),
            log_weight=np.tile(log_weight, (n, 1)),
        )


def _first_scores(prepared: Prepared) -> Vector:
    """Return the mean of the first bins, around which R0 is thought to lie."""
    filled = prepared.weight > 0
    early = prepared.weight * (np.cumsum(filled, axis=1) <= EARLY_BINS)
    return np.asarray((early * prepared.score).sum(axis=1) / np.maximum(early.sum(axis=1), 1e-300))
