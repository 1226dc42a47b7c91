"""The world of a response surface: scores from its curves, seconds from a cost model, failures at stated rates."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

from budgets.hardware import SECONDS_PER_HOUR
from runner.ports.backend import Point
from runner.ports.simulation import Costs, SimulationChoice
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


class SurfaceCourse(Course):
    """The life of one trial on a surface: it can be trained for ever."""

    def __init__(self, choice: SimulationChoice, surface: Surface, config: TrialConfig) -> None:
        """Draw what the trial's seed decides; the rest follows from a step."""
        validation = config.validation
        n, B, rollouts = config.rollouts_per_prompt, config.prompts_per_batch, config.rollouts_per_step
        super().__init__(config, choice.failures, mixed(choice.seed, n, B, config.seed))
        self.start_up_seconds = choice.costs.start_up_seconds
        self.save_seconds = choice.costs.save_seconds
        self._shape = surface.run(n, B, config.seed)
        self._rollouts = rollouts
        self._tokens_per_step = rollouts * choice.response_tokens
        self._answers = validation.problems * validation.samples
        self._cadence = Cadence(rollouts, validation.every_rollouts)
        self._seconds = StepSeconds(
            choice.costs, choice.seed, self._key, rollouts, validation.every_rollouts, self._answers
        )

    def seconds(self, step: int) -> float:
        """Return the trial's seconds when a step and its validation are over."""
        return self._seconds.at(step)

    def step_at(self, seconds: float) -> int:
        """Return the first step that is over at or after so many seconds."""
        return self._seconds.step_at(seconds)

    def scored_steps(self, after: int, upto: int) -> Sequence[int]:
        """Return the steps in (after, upto] that are validated."""
        return self._cadence.steps(after, upto)

    def point(self, step: int) -> Point:
        """Return the counts at a step, and its measured score where there is one."""
        seconds = self._seconds.at(step)
        score = error = None
        if self._cadence.due(step):
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
