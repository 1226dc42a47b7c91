"""The trials of a view as arrays, so that a decision among thousands of them needs no loop over all."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.sweeping.grants import MARGIN
from planner.trials import TrialState
from planner.view import ALIVE, TrialView, View

FIELDS = np.dtype(
    [
        *((name, "?") for name in ("ready", "paused", "running", "resting", "alive", "proposed")),
        *((name, "f8") for name in ("step", "pilot", "segment", "most", "per_step", "start_up")),
    ]
)


def _row(trial: TrialView) -> tuple[bool | float, ...]:
    """Return what is kept of a trial, in the order of the fields."""
    state, alive = trial.state, trial.state in ALIVE
    return (
        trial.ready,
        state is TrialState.PAUSED,
        state is TrialState.RUNNING,
        trial.resting and alive,
        alive,
        trial.proposed,
        trial.step,
        trial.pilot_steps,
        trial.segment_steps,
        trial.most_steps,
        trial.gpu_hours_per_step,
        trial.start_up_gpu_hours,
    )


class TrialTable:
    """One row per trial, in planned order; only trials that are new objects since the last view are read."""

    def __init__(self) -> None:
        self.trials: list[TrialView] = []
        self._rows = np.zeros(0, dtype=FIELDS)

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, field: str) -> NDArray[Any]:
        return np.asarray(self._rows[field][: len(self.trials)])

    def follow(self, view: View) -> list[int]:
        """Take over a view, and return the rows that changed, in order."""
        trials, known = list(view.trials.values()), self.trials
        changed = [row for row, trial in enumerate(trials) if row >= len(known) or known[row] is not trial]
        if len(trials) > len(self._rows):
            self._rows = np.resize(self._rows, 2 * len(trials)) if known else np.zeros(len(trials), dtype=FIELDS)
        if changed:
            self._rows[changed] = [_row(trials[row]) for row in changed]
        self.trials = trials
        return changed

    def affordable(self, gpu_hours: float) -> NDArray[np.bool_]:
        """Which ready trials could make at least one step for so many GPU-hours."""
        return np.asarray(self["ready"] & (self["start_up"] + self["per_step"] <= gpu_hours / MARGIN))

    @property
    def waiting(self) -> bool:
        """Whether something may still happen by itself: a segment ends, or a trial has rested."""
        return bool(self["running"].any() or self["resting"].any())


def next_boundary(trial: TrialView) -> int:
    """The end of the segment in which the trial stands; a shortened segment is made whole."""
    return min((trial.step // trial.segment_steps + 1) * trial.segment_steps, trial.most_steps)
