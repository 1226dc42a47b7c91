"""How much the runs of one configuration differ by their seed."""

from collections.abc import Iterable, Sequence

import numpy as np

from planner.view import Configuration, Seen, TrialView

SEED_SD = 0.01  # asymptotes of repeated runs lie within ±0.02 in ScaleRL (arXiv 2510.13786, A.6)
PRIOR_DEGREES = 4.0  # how many differences between seeds that counts as
LAST = 3  # scores that are averaged, since one validation has noise of its own


def seed_sd(trials: Iterable[TrialView]) -> float:
    """Return the standard deviation between seeds, from configurations of which several were seen.

    Runs are compared at the last compute that all of a configuration have reached. The published figure counts as a
    few degrees of freedom, and is the answer where there are no repeated runs.
    """
    runs: dict[Configuration, list[Sequence[Seen]]] = {}
    for trial in trials:
        if trial.scores and trial.scores[-1].gpu_hours > 0:
            runs.setdefault(trial.configuration, []).append(trial.scores)
    degrees, squares = PRIOR_DEGREES, PRIOR_DEGREES * SEED_SD**2
    for repeated in runs.values():
        if len(repeated) > 1:
            common = min(scores[-1].gpu_hours for scores in repeated)
            levels = [level(scores, common) for scores in repeated]
            degrees += len(levels) - 1
            squares += float(np.var(levels)) * len(levels)
    return float(np.sqrt(squares / degrees))


def level(scores: Sequence[Seen], gpu_hours: float = float("inf")) -> float:
    """Return the mean of a run's last few scores up to a compute."""
    known = [seen.score for seen in scores if seen.gpu_hours <= gpu_hours] or [scores[0].score]
    return float(np.mean(known[-LAST:]))
