"""Hyperband (Li et al. 2018, JMLR 18(185)), its brackets run asynchronously."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planner.sweeping.actions import Action
from planner.sweeping.rungs import REDUCTION, SuccessiveHalving
from planner.view import View


class Hyperband:
    """Hedges between many short trials and few long ones: trials are dealt to brackets that begin at different rungs.

    Of s_max + 1 brackets, one per rung within a pilot, the one that begins at rung b is dealt a share of
    ⌈(s_max + 1) / (s + 1) · η^s⌉ trials, s = s_max − b, as published.
    """

    def __init__(self, reduction: int = REDUCTION) -> None:
        self._reduction = reduction
        self._halving = SuccessiveHalving(reduction)

    @property
    def name(self) -> str:
        """The name under which `--policy` knows it."""
        return "hyperband"

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        return self._halving.decide(view, self._brackets(view))

    def _brackets(self, view: View) -> NDArray[np.intp]:
        """Deal the trials in planned order; the first one's pilot says how many rungs there are."""
        if not view.trials:
            return np.zeros(0, dtype=np.intp)
        first = next(iter(view.trials.values()))
        segments = max(1, min(first.pilot_steps, first.most_steps) // first.segment_steps)
        return dealt(len(view.trials), int(math.log(segments, self._reduction) + 1e-9), self._reduction)


def dealt(trials: int, last: int, reduction: int) -> NDArray[np.intp]:
    """Return each trial's bracket, so that after any number of trials the shares are as near as can be."""
    shares = [
        math.ceil((last + 1) / (last - bracket + 1) * reduction ** (last - bracket)) for bracket in range(last + 1)
    ]
    turns = [((place + 0.5) / share, bracket) for bracket, share in enumerate(shares) for place in range(share)]
    return np.resize(np.array([bracket for _, bracket in sorted(turns)], dtype=np.intp), trials)
