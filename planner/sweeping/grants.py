"""How much of a segment the budget pays for."""

import math
from dataclasses import dataclass

from planner.view import TrialView

# Steps vary, a validation may fall into the segment, and a reservation that is not used up is given back.
MARGIN = 1.3


@dataclass(frozen=True, slots=True)
class Grant:
    """A segment that is paid for: it may train up to a step and use so many GPU-hours."""

    to_step: int
    gpu_hours: float


def grant(trial: TrialView, to_step: int, gpu_hours_left: float, least_gpu_hours: float = 0.0) -> Grant | None:
    """Return the segment up to a step, or the part of it that can be afforded; None when that is not worth a start-up.

    A part is worth it when its updates take no less than the start-up does, and no less than the least that is named:
    the end of a budget would else go into ever smaller segments.
    """
    wanted = min(to_step, trial.most_steps) - trial.step
    room = gpu_hours_left / MARGIN - trial.start_up_gpu_hours
    if wanted < 1 or room <= 0:
        return None
    price = trial.gpu_hours_per_step
    steps = wanted if wanted * price <= room else min(wanted, math.floor(room / price))
    if steps < 1 or (steps < wanted and steps * price < max(trial.start_up_gpu_hours, least_gpu_hours)):
        return None
    reserved = MARGIN * (trial.start_up_gpu_hours + steps * price)
    return Grant(trial.step + steps, min(reserved, gpu_hours_left))
