"""A world that is drawn around published constants, and what each trial will do in it, known beforehand.

Scores come from the curves of a response surface, seconds from a cost model, failures at stated rates.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final

from budgets.errors import InputError
from budgets.hardware import SECONDS_PER_HOUR
from runner.ports.backend import Point
from runner.ports.trial import Failures, SimulationChoice, TrialConfig
from runner.simulation.surfaces import Surface, binomial, mixed, normal, uniform

PERIOD: Final = 4096  # updates after which the spread between steps repeats itself


@dataclass(frozen=True, slots=True)
class Breakdown:
    """An update in which a trial fails, whoever runs it and however often."""

    step: int
    kind: str  # as TrainingError classifies it
    message: str


class Course:
    """The whole life of one trial, as functions of its step: no step has to be made to see a later one.

    It can be trained for ever. An update takes seconds that are affine in its rollouts. The trial is validated at
    step 0, and where a multiple of `every_rollouts` is passed. `seconds` are of the trial's own training and
    validation, those of step 0 included; what a worker needs to start it comes on top, each time that it is not in
    memory.
    """

    def __init__(self, choice: SimulationChoice, surface: Surface, config: TrialConfig) -> None:
        """Draw what the trial's seed decides; the rest follows from a step."""
        validation, costs = config.validation, choice.costs
        n, B, rollouts = config.rollouts_per_prompt, config.prompts_per_batch, config.rollouts_per_step
        self.key = mixed(choice.seed, n, B, config.seed)
        self.gpus = config.machine.gpus
        breakdowns = _breakdowns(choice.failures, self.key, rollouts)
        self._breakdown = min(breakdowns, key=lambda breakdown: breakdown.step, default=None)
        self.start_up_seconds, self.save_seconds = costs.start_up_seconds, costs.save_seconds
        self._shape = surface.run(n, B, config.seed)
        self._rollouts, self._every = rollouts, validation.every_rollouts
        self._tokens_per_step = rollouts * choice.response_tokens
        self._answers = validation.problems * validation.samples
        self._update = costs.seconds_per_update + costs.seconds_per_rollout * rollouts
        self._validation = costs.seconds_per_answer * self._answers
        self._sums = _spreads(choice.seed, costs.spread)
        self._offset = mixed(self.key, 7) % PERIOD  # each trial sees another stretch of the same spreads

    def seconds(self, step: int) -> float:
        """Return the trial's seconds when a step and its validation are over."""
        periods, rest = divmod(self._offset + step, PERIOD)
        updates = periods * PERIOD + self._sums[rest] - self._sums[self._offset]
        validations = min(1 + step * self._rollouts // self._every, 1 + step)
        return self._update * updates + self._validation * validations

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
            score = binomial(mean, self._answers, self.key, step) / self._answers
            error = math.sqrt(score * (1 - score) / self._answers)
        return Point(
            step,
            step * self._rollouts,
            step * self._tokens_per_step,
            seconds,
            seconds * self.gpus / SECONDS_PER_HOUR,
            score,
            error,
        )

    def breakdown(self, after: int, upto: int) -> Breakdown | None:
        """Return the first update in that range which fails."""
        breakdown = self._breakdown
        return breakdown if breakdown is not None and after < breakdown.step <= upto else None


def course_of(config: TrialConfig) -> Course:
    """Return the life of a trial in the world of its configuration, or in one that is drawn from seed 0.

    One whose batch grows is refused: what that does to its score is not known.
    """
    if config.growth is not None:
        raise InputError(
            f"growth {config.growth} cannot be simulated: worlds without training know constant batches alone; "
            "leave growth out, or train"
        )
    choice = config.simulation or SimulationChoice()
    return Course(choice, _surface(choice), config)


@lru_cache(maxsize=64)
def _surface(choice: SimulationChoice) -> Surface:
    return Surface(choice)


@lru_cache(maxsize=16)
def _spreads(seed: int, spread: float) -> tuple[float, ...]:
    """Return the sums of the first 0 … PERIOD relative costs, log-normal with mean 1 over the period."""
    relative = [math.exp(spread * normal(seed, i)) for i in range(PERIOD)]
    scale = PERIOD / math.fsum(relative)
    return (0.0, *accumulate(value * scale for value in relative))


def _breakdowns(failures: Failures, trial: int, rollouts: int) -> Iterator[Breakdown]:
    """Yield the updates that fail of a trial with this key and so many rollouts per step."""
    most = failures.most_rollouts
    if most is not None and rollouts > most:
        room = f"{rollouts:,} rollouts per step, and this world has room for {most:,}; use fewer"
        yield Breakdown(1, "out-of-memory", f"out of memory in update 1: {room}")
    if failures.nan_per_update:
        step = max(1, math.ceil(math.log(uniform(trial, 52)) / math.log1p(-failures.nan_per_update)))
        yield Breakdown(step, "nan", f"the loss of update {step} is not a number; use a lower learning rate")
    if failures.at_step is not None:
        step, kind = failures.at_step, failures.at_step_kind
        yield Breakdown(step, kind, f"{kind} in update {step}, as simulation.failures asks for")
