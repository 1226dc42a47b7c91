"""Seconds of a trial's updates and validations as functions of its step, without a loop over the steps."""

import math
from functools import lru_cache
from itertools import accumulate
from typing import Final

from runner.ports.simulation import Costs
from runner.simulation.chance import mixed, normal

PERIOD: Final = 4096  # updates after which the spread between steps repeats itself


@lru_cache(maxsize=16)
def _spreads(seed: int, spread: float) -> tuple[float, ...]:
    """Return the sums of the first 0 … PERIOD relative costs, log-normal with mean 1 over the period."""
    relative = [math.exp(spread * normal(seed, i)) for i in range(PERIOD)]
    scale = PERIOD / math.fsum(relative)
    return (0.0, *accumulate(value * scale for value in relative))


class StepSeconds:
    """Seconds of one trial: an update is affine in its rollouts, validations come at a cadence in rollouts."""

    __slots__ = ("_every", "_offset", "_rollouts", "_sums", "_update", "_validation")

    def __init__(self, costs: Costs, world: int, trial: int, rollouts: int, every: int, answers: int) -> None:
        """Take the seeds of world and trial, rollouts per step, those between validations, and answers in each."""
        self._rollouts, self._every = rollouts, every
        self._update = costs.seconds_per_update + costs.seconds_per_rollout * rollouts
        self._validation = costs.seconds_per_answer * answers
        self._sums = _spreads(world, costs.spread)
        self._offset = mixed(trial, 7) % PERIOD  # each trial sees another stretch of the same spreads

    @property
    def per_update(self) -> float:
        """Mean seconds of an update, with its share of the validations."""
        return self._update + self._validation * self._rollouts / self._every

    def at(self, step: int) -> float:
        """Return the seconds when a step and its validation are over."""
        validations = 1 + step * self._rollouts // self._every
        return self._update * (self._sum(self._offset + step) - self._sums[self._offset]) + self._validation * (
            min(validations, 1 + step)
        )

    def step_at(self, seconds: float) -> int:
        """Return the first step that is over at or after so many seconds."""
        if self.at(0) >= seconds:
            return 0
        low, high = 0, 1
        while self.at(high) < seconds:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.at(middle) < seconds else (low, middle)
        return high

    def _sum(self, steps: int) -> float:
        periods, rest = divmod(steps, PERIOD)
        return periods * PERIOD + self._sums[rest]


class Cadence:
    """The steps at which a trial is validated: step 0, and where a multiple of `every` rollouts is passed."""

    __slots__ = ("_every", "_rollouts")

    def __init__(self, rollouts: int, every: int) -> None:
        self._rollouts, self._every = rollouts, every

    def due(self, step: int) -> bool:
        """Whether the trial is validated after this step."""
        made = step * self._rollouts
        return step == 0 or made // self._every > (made - self._rollouts) // self._every

    def steps(self, after: int, upto: int) -> list[int]:
        """Return the steps in (after, upto]."""
        start = [0] if after < 0 <= upto else []
        if self._every <= self._rollouts:
            return start + list(range(max(1, after + 1), upto + 1))
        first = max(0, after) * self._rollouts // self._every + 1
        last = upto * self._rollouts // self._every
        return start + [-(-multiple * self._every // self._rollouts) for multiple in range(first, last + 1)]
