"""The trials of a view as arrays, so that a decision among thousands of them needs no loop over all."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.sweeping.grants import MARGIN
from planner.trials import TrialState
from planner.view import ALIVE, TrialView, View

# What is kept of a trial: how numpy stores it, and what it is.
COLUMNS: dict[str, tuple[str, Callable[[TrialView], bool | float]]] = {
    "ready": ("?", lambda trial: trial.ready),
    "paused": ("?", lambda trial: trial.state is TrialState.PAUSED),
    "running": ("?", lambda trial: trial.state is TrialState.RUNNING),
    "resting": ("?", lambda trial: trial.resting and trial.state in ALIVE),
    "alive": ("?", lambda trial: trial.state in ALIVE),
    "proposed": ("?", lambda trial: trial.proposed),
    "step": ("f8", lambda trial: trial.step),
    "pilot": ("f8", lambda trial: trial.pilot_steps),
    "segment": ("f8", lambda trial: trial.segment_steps),
    "most": ("f8", lambda trial: trial.most_steps),
    "per_step": ("f8", lambda trial: trial.gpu_hours_per_step),
    "start_up": ("f8", lambda trial: trial.start_up_gpu_hours),
}
FIELDS = np.dtype([(name, kind) for name, (kind, _) in COLUMNS.items()])


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
        for row in changed:
            self._rows[row] = tuple(value(trials[row]) for _, value in COLUMNS.values())
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
