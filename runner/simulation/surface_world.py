"""The world of a response surface: scores from its curves, seconds from a cost model, failures at stated rates."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

from budgets.hardware import SECONDS_PER_HOUR
from runner.ports.backend import Point
from runner.ports.simulation import SimulationChoice
from runner.ports.trial import TrialConfig
from runner.simulation.chance import binomial, mixed, normal
from runner.simulation.surfaces import Surface
from runner.simulation.world import Course, require_constant_batch

PERIOD: Final = 4096  # updates after which the spread between steps repeats itself


@lru_cache(maxsize=16)
def _spreads(seed: int, spread: float) -> tuple[float, ...]:
    """Return the sums of the first 0 … PERIOD relative costs, log-normal with mean 1 over the period."""
    relative = [math.exp(spread * normal(seed, i)) for i in range(PERIOD)]
    scale = PERIOD / math.fsum(relative)
    return (0.0, *accumulate(value * scale for value in relative))


class SurfaceCourse(Course):
    """The life of one trial on a surface: it can be trained for ever.

    An update takes seconds that are affine in its rollouts. The trial is validated at step 0, and where a multiple of
    `every_rollouts` is passed.
    """

    def __init__(self, choice: SimulationChoice, surface: Surface, config: TrialConfig) -> None:
        """Draw what the trial's seed decides; the rest follows from a step."""
        validation, costs = config.validation, choice.costs
        n, B, rollouts = config.rollouts_per_prompt, config.prompts_per_batch, config.rollouts_per_step
        super().__init__(config, choice.failures, mixed(choice.seed, n, B, config.seed))
        self.start_up_seconds, self.save_seconds = costs.start_up_seconds, costs.save_seconds
        self._shape = surface.run(n, B, config.seed)
        self._rollouts, self._every = rollouts, validation.every_rollouts
        self._tokens_per_step = rollouts * choice.response_tokens
        self._answers = validation.problems * validation.samples
        self._update = costs.seconds_per_update + costs.seconds_per_rollout * rollouts
        self._validation = costs.seconds_per_answer * self._answers
        self._sums = _spreads(choice.seed, costs.spread)
        self._offset = mixed(self._key, 7) % PERIOD  # each trial sees another stretch of the same spreads

    def seconds(self, step: int) -> float:
        """Return the trial's seconds when a step and its validation are over."""
        periods, rest = divmod(self._offset + step, PERIOD)
        updates = periods * PERIOD + self._sums[rest] - self._sums[self._offset]
        validations = min(1 + step * self._rollouts // self._every, 1 + step)
        return self._update * updates + self._validation * validations

    def step_at(self, seconds: float) -> int:
        """Return the first step that is over at or after so many seconds."""
        high = 1
        while self.seconds(high) < seconds:
            high *= 2
        return bisect_left(range(high), seconds, key=self.seconds)

    def scored_steps(self, after: int, upto: int) -> Sequence[int]:
        """Return the steps in (after, upto] that are validated."""
        start = [0] if after < 0 <= upto else []
        if self._every <= self._rollouts:
            return start + list(range(max(1, after + 1), upto + 1))
        first = max(0, after) * self._rollouts // self._every + 1
        last = upto * self._rollouts // self._every
        return start + [-(-multiple * self._every // self._rollouts) for multiple in range(first, last + 1)]

    def point(self, step: int) -> Point:
        """Return the counts at a step, and its measured score where there is one."""
        seconds = self.seconds(step)
        score = error = None
        if self.scored_steps(step - 1, step):
            mean = self._shape.score(step * self._rollouts)
            score = binomial(mean, self._answers, self._key, step) / self._answers
            error = math.sqrt(score * (1 - score) / self._answers)
        return Point(
            step,
            step * self._rollouts,
            step * self._tokens_per_step,
            seconds,
            seconds * self._gpus / SECONDS_PER_HOUR,
            score,
            error,
        )


class SurfaceWorld:
    """Trials on one response surface."""

    def __init__(self, choice: SimulationChoice) -> None:
        self.surface = Surface(choice)
        self._choice = choice

    def course(self, config: TrialConfig) -> SurfaceCourse:
        """Return the life of a trial; any with a constant batch belongs to this world."""
        require_constant_batch(config)
        return SurfaceCourse(self._choice, self.surface, config)
