"""Successive halving of the whole grid with the budget known beforehand (Jamieson and Talwalkar, 2016).

Each of ⌈log_η N⌉ rounds gets an equal share of the budget, and the best 1/η go on. Where a first round of all would end
before the first point, as many configurations begin as can have one.
"""

import math
from collections.abc import Hashable

import numpy as np
from board import Levels, SweepState
from clock import Task

NAMES = ("grid-halving", "grid-thirding")


class Halving:
    """Rounds of equal cost; a round begins when the one before has ended."""

    def __init__(self, name: str, board: SweepState, levels: Levels, budget: float, seed: int) -> None:
        """Plan the rounds for a budget in levels."""
        self._eta = 2 if name == "grid-halving" else 3
        order = np.random.default_rng(seed).permutation(len(board.configurations))
        count = len(order)
        while count > 1 and budget / self._rounds(count) / count < 1:
            count -= 1
        self._share = budget / self._rounds(count)
        self._most = levels.most
        self._left = [int(one) for one in order[:count]]
        self._level = dict.fromkeys(self._left, 0.0)
        self._waiting, self._running, self._scores = list(self._left), 0, {}
        self._plan()

    def _rounds(self, count: int) -> int:
        return max(1, math.ceil(math.log(count) / math.log(self._eta) - 1e-9))

    def _plan(self) -> None:
        more = self._share / len(self._left)
        for one in self._left:
            self._level[one] = min(self._most, self._level[one] + more)

    def next(self) -> Task | None:
        """Return the next of the round; None while others of it run, and after the last."""
        if not self._waiting:
            return None
        one = self._waiting.pop(0)
        self._running += 1
        return Task(one, one, self._level[one], every_level=False)

    def reported(self, trial: Hashable, level: float, score: float) -> bool:
        """Hear of nothing on the way."""
        return True

    def ended(self, trial: Hashable, level: float, score: float) -> None:
        """Take the score, and open the next round after the last of this one."""
        self._running -= 1
        self._scores[trial] = score
        if self._waiting or self._running or len(self._left) == 1:
            return
        keep = max(1, math.ceil(len(self._left) / self._eta))
        self._left = sorted(self._left, key=lambda one: -self._scores[one])[:keep]
        if len(self._left) > 1 or keep == 1:
            self._waiting = list(self._left)
            self._plan()
