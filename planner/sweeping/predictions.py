"""What trials' curves say of their scores at the target: the place where single fits give way to better ones."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr

from planner.curves.curve import Curve, Vector
from planner.curves.fitting import fit_curves
from planner.curves.posterior import Posterior, over_chunks
from planner.sweeping.grid import BINS, EDGES
from planner.view import TrialView

DECIMALS = 10


@dataclass(frozen=True, slots=True)
class Explained:
    """A curve's verdict with its evidence, and its parameters as intervals."""

    verdict: str
    evidence: str
    parameters: dict[str, dict[str, float]]


class Predictor(Protocol):
    """Says what the curves of trials are worth; each trial has a score at positive GPU-hours."""

    def cumulative(self, trials: Sequence[TrialView], target_gpu_hours: float) -> Vector:
        """Return P(mean score at the target ≤ upper edge of each bin of the grid), one row per trial."""
        ...

    def explain(self, trials: Sequence[TrialView]) -> list[Explained]:
        """Return verdicts and parameters, which cost more than predictions and are asked for less often."""
        ...


class SingleCurves:
    """Each curve is predicted from its own points."""

    def cumulative(self, trials: Sequence[TrialView], target_gpu_hours: float) -> Vector:
        """Return P(mean score at the target ≤ upper edge of each bin of the grid), one row per trial."""

        def of_chunk(rows: slice, posterior: Posterior) -> Vector:
            count = rows.stop - rows.start
            mixtures = posterior.predict(np.full(count, target_gpu_hours))
            below = ndtr((EDGES[None, 1:-1, None] - mixtures.mean[:, None, :]) / mixtures.sd[:, None, :])
            # What lies beyond the bounds of a pass rate counts at them, as in the mixtures' own quantiles.
            return np.hstack([(below @ mixtures.weight[:, :, None])[:, :, 0], np.ones((count, 1))])

        curves = [curve_of(trial) for trial in trials]
        upper = np.concatenate(over_chunks(curves, of_chunk) or [np.empty((0, BINS))])
        # The last bits depend on which curves are fitted in one go, and decisions must not.
        return np.round(upper, DECIMALS)

    def explain(self, trials: Sequence[TrialView]) -> list[Explained]:
        """Return verdicts and parameters."""
        return [
            Explained(
                str(fit.verdict), fit.evidence, {name: asdict(interval) for name, interval in fit.parameters.items()}
            )
            for fit in fit_curves([curve_of(trial) for trial in trials])
        ]


def curve_of(trial: TrialView) -> Curve:
    """Return the trial's committed scores as a curve of pass rates over its own GPU-hours."""
    errors = [seen.standard_error for seen in trial.scores]
    known = [error for error in errors if error is not None]
    return Curve.of(
        trial.name,
        [seen.gpu_hours for seen in trial.scores],
        np.clip([seen.score for seen in trial.scores], 0.0, 1.0),
        bounded=True,
        standard_errors=known if len(known) == len(errors) else None,
    )
