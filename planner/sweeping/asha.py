"""ASHA: asynchronous successive halving with a single bracket."""

from collections.abc import Sequence

import numpy as np

from planner.sweeping.actions import Action
from planner.sweeping.rungs import REDUCTION, SuccessiveHalving
from planner.view import View


class Asha:
    """Promotes the best of each rung to η times as many segments, and starts new trials else."""

    def __init__(self, reduction: int = REDUCTION) -> None:
        self._halving = SuccessiveHalving(reduction)

    @property
    def name(self) -> str:
        """The name under which `--policy` knows it."""
        return "asha"

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        return self._halving.decide(view, np.zeros(len(view.trials), dtype=np.intp))
