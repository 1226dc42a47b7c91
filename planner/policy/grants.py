"""How much of a segment the budget pays for, and what is charged: the same for a sweep, a preview and a replay."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from budgets.hardware import SECONDS_PER_HOUR
from budgets.ledger import Ledger
from planner.view import TrialView

# Steps vary, a validation may fall into the segment, and a reservation that is not used up is given back.
MARGIN = 1.3
SMALLEST_PART = 16  # a part of a segment is no smaller than this part of what a whole one may take
UPDATES_UNDER_WAY = 2.0  # a validation may come with it
ROUNDING = 1 + 1e-9  # a planned segment is allowed whole, however its price was rounded
IDLE = "idle workers"  # the key of what is reserved for them
LEAST_IDLE_SECONDS = 2.0
MOST_IDLE_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Grant:
    """A segment that is paid for: it may train up to a step and use so many GPU-hours."""

    to_step: int
    gpu_hours: float


def grant(
    trial: TrialView, to_step: int, gpu_hours_left: float, least_gpu_hours: float = 0.0, *, margin: float = MARGIN
) -> Grant | None:
    """Return the segment up to a step, or the part of it that can be afforded; None when that is not worth a start-up.

    A part is worth it when its updates take no less than the start-up does, and no less than the least that is named:
    the end of a budget would else go into ever smaller segments. What is reserved beyond the `margin` is given where
    it is there.
    """
    missing_steps = min(to_step, trial.most_steps) - trial.step
    room = gpu_hours_left / margin - trial.start_up_gpu_hours
    if missing_steps < 1 or room <= 0:
        return None
    price = trial.gpu_hours_per_step
    steps = missing_steps if missing_steps * price <= room else min(missing_steps, math.floor(room / price))
    if steps < 1 or (steps < missing_steps and steps * price < max(trial.start_up_gpu_hours, least_gpu_hours)):
        return None
    reserved = MARGIN * (trial.start_up_gpu_hours + steps * price)
    return Grant(trial.step + steps, min(reserved, gpu_hours_left))


def time_limit(reserved_gpu_hours: float, gpu_hours_per_step: float) -> float:
    """Return the GPU-hours after which a worker is to stop: the update under way then still fits the reservation."""
    return max(reserved_gpu_hours - UPDATES_UNDER_WAY * gpu_hours_per_step, reserved_gpu_hours / 2)


def idle_gpu_hours(workers: int, start_up_gpu_hours: float, slots: int) -> float:
    """Return what workers will live between segments: about a start-up each, since they are ended when it is more."""
    return workers * (start_up_gpu_hours + slots * LEAST_IDLE_SECONDS / SECONDS_PER_HOUR)


class Account:
    """The GPU-hours of a sweep's pilots: what they are granted, and which worker was charged with them."""

    def __init__(
        self,
        budget: float,
        spent: float = 0.0,
        *,
        idle: float = 0.0,
        charged: Mapping[str, float] | None = None,
        margin: float = MARGIN,
    ) -> None:
        """Begin with what is spent, by worker where it is known, and set the time of idle workers aside.

        The margin is what a segment has to be paid for with at least.
        """
        self.ledger = Ledger(budget, spent)
        self._charged = dict(charged or {})
        self._idle, self._margin = idle, margin
        self._set_idle_time_aside()

    def share(self, trials: int) -> float:
        """Return what each of so many trials could have of the budget."""
        return self.ledger.budget / max(1, trials)

    def most_of_a_segment(self, trial: TrialView, trials: int, planned_price: float) -> float:
        """Return the most GPU-hours that one segment may reserve: half of what each trial could have of the budget.

        Planned segments are a quarter of it, and always allowed, and so is what makes a start-up worth while: a small
        budget's half may be less. Where prices turn out many times the plan's, one segment would otherwise hold all
        the money, and the other workers would wait.
        """
        share = self.share(trials) / 2
        updates = max(trial.segment_steps * planned_price, trial.start_up_gpu_hours + trial.gpu_hours_per_step)
        return max(share, ROUNDING * MARGIN * (trial.start_up_gpu_hours + updates))

    def grant(self, trial: TrialView, to_step: int, most: float | None) -> Grant | None:
        """Return what can be reserved of a segment up to a step; no plan limits it where nothing is the most."""
        money = self.ledger.left
        if most is None:
            whole = MARGIN * trial.price(trial.step + trial.segment_steps)
            return grant(trial, to_step, money, whole / SMALLEST_PART, margin=self._margin)
        return grant(trial, to_step, min(money, most), most / SMALLEST_PART, margin=self._margin)

    def charged(self, worker: str) -> float:
        """Return what a worker was charged with so far."""
        return self._charged.get(worker, 0.0)

    @property
    def idle_gpu_hours(self) -> float:
        """What is set aside for idle workers now."""
        return self.ledger.reserved_for(IDLE)

    def set_aside(self, idle_gpu_hours: float) -> None:
        """Set another time aside for idle workers: what a start-up takes turned out otherwise."""
        if idle_gpu_hours != self._idle:
            self._idle = idle_gpu_hours
            self.ledger.release(IDLE)
            self._set_idle_time_aside()

    def unpaid(self, worker: str, lived_gpu_hours: float) -> float:
        """Return what nothing was charged with yet of a worker's life, its start-up and its waiting included."""
        return max(0.0, lived_gpu_hours - self.charged(worker))

    def charge(self, key: str, worker: str | None, gpu_hours: float) -> None:
        """Close a segment's reservation with what its worker has used."""
        self.ledger.charge(key, gpu_hours)
        if worker is not None:
            self._charged[worker] = self.charged(worker) + gpu_hours

    def charge_idle(self, worker: str, gpu_hours: float) -> None:
        """Count what a worker lived without a segment out of what is set aside for it, and set aside as much again."""
        self.charge(IDLE, worker, gpu_hours)
        self._set_idle_time_aside()

    def _set_idle_time_aside(self) -> None:
        """Without it a sweep that has spent its last GPU-hour on segments would overrun by what its workers waited."""
        self.ledger.reserve(IDLE, min(self._idle, MOST_IDLE_SHARE * self.ledger.budget, self.ledger.left))
