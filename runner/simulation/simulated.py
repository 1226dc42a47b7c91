"""The simulated world: scores from a response surface, seconds from a cost model, failures at stated rates."""

import math
from collections.abc import Callable, Sequence

from budgets.hardware import SECONDS_PER_HOUR
from runner.ports.backend import Point
from runner.ports.simulation import SimulationChoice
from runner.ports.trial import TrialConfig
from runner.simulation.chance import binomial, mixed
from runner.simulation.costs import Cadence, StepSeconds
from runner.simulation.failures import first_breakdown, seconds_until_lost
from runner.simulation.surfaces import Surface
from runner.simulation.world import Breakdown, require_constant_batch


class SimulatedCourse:
    """The life of one trial on a surface."""

    last_step: int | None = None  # it can be trained for ever

    def __init__(self, choice: SimulationChoice, surface: Surface, config: TrialConfig) -> None:
        """Draw what the trial's seed decides; the rest follows from a step."""
        validation = config.validation
        n, B, rollouts = config.rollouts_per_prompt, config.prompts_per_batch, config.rollouts_per_step
        self.start_up_seconds = choice.costs.start_up_seconds
        self.save_seconds = choice.costs.save_seconds
        self._key = mixed(choice.seed, n, B, config.seed)
        self._shape = surface.run(n, B, config.seed)
        self._rollouts, self._gpus = rollouts, config.machine.gpus
        self._tokens_per_step = rollouts * choice.response_tokens
        self._answers = validation.problems * validation.samples
        self._cadence = Cadence(rollouts, validation.every_rollouts)
        self._seconds = StepSeconds(
            choice.costs, choice.seed, self._key, rollouts, validation.every_rollouts, self._answers
        )
        self._failures = choice.failures
        self._breakdown = first_breakdown(choice.failures, self._key, rollouts)
        self.seconds = self._seconds.at
        self.scored_steps: Callable[[int, int], Sequence[int]] = self._cadence.steps
        self.step_at = self._seconds.step_at

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

    def breakdown(self, after: int, upto: int) -> Breakdown | None:
        """Return the first update in that range which fails."""
        found = self._breakdown
        return found if found is not None and after < found.step <= upto else None

    def seconds_until_lost(self, attempt: int, from_step: int) -> float:
        """Return after how many seconds in this attempt from this step the worker is lost."""
        return seconds_until_lost(self._failures, self._key, attempt, from_step, self._gpus)


class SimulatedWorld:
    """Trials on one response surface."""

    def __init__(self, choice: SimulationChoice) -> None:
        self.surface = Surface(choice)
        self._choice = choice

    def course(self, config: TrialConfig) -> SimulatedCourse:
        """Return the life of a trial; any with a constant batch belongs to this world."""
        require_constant_batch(config)
        return SimulatedCourse(self._choice, self.surface, config)

    def truth(self, config: TrialConfig, gpu_hours: float) -> float:
        """Return the mean score of the trial's cell, over its seeds, when so many GPU-hours of training are over."""
        seconds = gpu_hours * SECONDS_PER_HOUR / config.machine.gpus
        step = self.course(config).step_at(seconds)
        cell = self.surface.cell(config.rollouts_per_prompt, config.prompts_per_batch)
        return cell.score(step * config.rollouts_per_step)
