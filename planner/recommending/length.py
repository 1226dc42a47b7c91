"""How long a final run is: the updates that GPU-hours pay for beside its start-up, the last of which is validated."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from planner.sweeping.final import LAST_MARGIN
from planner.sweeping.grants import MOST_IDLE_SHARE, idle_gpu_hours
from planner.view import ScorePoint

VALIDATIONS = 40  # over a final run


@dataclass(frozen=True, slots=True)
class FinalLength:
    """A final run in whole validations: no update beyond the one that it goes on from where too little is left."""

    steps: int
    segment_steps: int  # from one validation to the next
    gpu_hours_per_step: float  # with its share of the validations
    gpu_hours: float  # still to be paid, with its start-up
    least_gpu_hours: float  # that its first validation takes
    first_steps: int  # up to that


@dataclass(frozen=True, slots=True)
class FinalPrice:
    """GPU-hours of a final run's updates, of its validations and of its start-up."""

    update: float
    validation: float = 0.0  # 0: its share is within an update's
    start_up: float = 0.0
    slots: int = 0  # of its worker, which is paid also while it waits
    begun: int = 0  # the update that it goes on from, up to which all is paid
    most_steps: int | None = None  # beyond which it is not trained, whatever that costs

    @staticmethod
    def split(gpu_hours_per_step: float, scores: Sequence[ScorePoint]) -> tuple[float, float]:
        """Return the price of an update and of a validation, by what a pilot's validations took.

        A pilot is scored more often than the final run that its price is for.
        """
        scoring = [score.validation_gpu_hours for score in scores[1:] if score.validation_gpu_hours]
        took = scores[-1].gpu_hours - scores[0].gpu_hours if scoring else 0.0
        share = min(1.0, sum(scoring) / took) if took > 0 else 0.0
        if not 0 < share < 1:
            return gpu_hours_per_step, 0.0
        steps = scores[-1].step - scores[0].step
        return gpu_hours_per_step * (1 - share), gpu_hours_per_step * share * steps / len(scoring)

    def length(self, gpu_hours: float, validations: int = VALIDATIONS) -> FinalLength:
        """Return the run that the GPU-hours still to be paid are for, the last segment's margin left.

        T updates of V validations in all: (T - begun) (u + V v / T) = gpu_hours. No more than half of the money goes
        into validations.
        """
        idle = min(idle_gpu_hours(1, 0.0, self.slots), MOST_IDLE_SHARE * gpu_hours)
        money, begun = gpu_hours - idle, self.begun
        if self.validation:
            validations = max(1, min(validations, int(money / (2 * self.validation))))
        training, scoring = (
            (money - self.start_up) * (1 - (LAST_MARGIN - 1) / validations),
            validations * self.validation,
        )
        without = max(0.0, training) + begun * self.update - scoring
        paid = math.floor((without + math.sqrt(without**2 + 4 * self.update * begun * scoring)) / (2 * self.update))
        paid = max(begun, paid) if self.most_steps is None else min(max(begun, paid), self.most_steps)
        segment = max(1, paid // validations)
        steps = paid // segment * segment
        per_step, first = self.update + scoring / max(1, steps), segment - begun % segment
        least = LAST_MARGIN * (self.start_up + first * per_step)
        if steps <= begun or least > money:
            steps = begun
        price = self.start_up + (steps - begun) * per_step
        return FinalLength(steps, segment, per_step, price, idle + least, first)
