"""The promise that GPU-hours are reserved before they are used and that the sum never passes the budget."""

import math
from dataclasses import dataclass, field

from budgets.errors import BudgetError, InputError


@dataclass
class Ledger:
    """GPU-hours of one sweep: reserve before a segment, then charge what it took or release it.

    `spent + reserved ≤ budget` holds after every call. What ran longer than it reserved is charged in full, since
    the hours are gone; the part for which there is no room, which only a worker that outran its grant can cause, is
    kept in `overrun` so that it is neither hidden nor allowed to break the invariant. It moves to `spent` as soon as
    reservations that are not used up make room.
    """

    budget: float
    spent: float = 0.0
    overrun: float = 0.0
    _reservations: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_hours("budget", self.budget)
        _check_hours("spent", self.spent)
        if self.spent > self.budget:
            self.overrun += self.spent - self.budget
            self.spent = self.budget

    @property
    def charged(self) -> float:
        """GPU-hours that are gone, whether or not there was room for them."""
        return self.spent + self.overrun

    @property
    def reserved(self) -> float:
        """GPU-hours promised to segments that have not ended."""
        return math.fsum(self._reservations.values())

    def reserved_for(self, key: str) -> float:
        """Return what a reservation holds; 0 where there is none."""
        return self._reservations.get(key, 0.0)

    @property
    def left(self) -> float:
        """GPU-hours that can still be reserved."""
        room = max(0.0, self.budget - self.spent - self.reserved)
        while room > 0 and not self.can_reserve(room):  # rounding: the parts may add up to an ulp more
            room = max(0.0, room - math.ulp(self.budget))
        return room

    def can_reserve(self, gpu_hours: float) -> bool:
        """Say whether so much could be reserved now."""
        _check_hours("reservation", gpu_hours)
        return self.spent + math.fsum([*self._reservations.values(), gpu_hours]) <= self.budget

    def reserve(self, key: str, gpu_hours: float) -> None:
        """Set GPU-hours aside for a segment that is about to start."""
        if key in self._reservations:
            raise InputError(f"'{key}' holds a reservation already: charge or release it before reserving again")
        if not self.can_reserve(gpu_hours):
            raise BudgetError(
                f"cannot reserve {gpu_hours:.6g} GPU-hours for '{key}': {self.left:.6g} are left of {self.budget:.6g} "
                f"({self.spent:.6g} spent, {self.reserved:.6g} reserved)"
            )
        self._reservations[key] = gpu_hours

    def extend(self, key: str, gpu_hours: float) -> None:
        """Set so many GPU-hours more aside for a segment under way, or as many of them as there are."""
        before = self.reserved_for(key)
        after = before + min(gpu_hours, self.left)
        self._close(key)
        while after > before and not self.can_reserve(after):  # rounding
            after = max(before, math.nextafter(after, 0.0))
        self._reservations[key] = after

    def charge(self, key: str, gpu_hours: float) -> None:
        """Close a reservation with what the segment took, whether it ended well, failed or was lost."""
        _check_hours("charge", gpu_hours)
        self._close(key)
        self.overrun += gpu_hours
        self._absorb()

    def release(self, key: str) -> None:
        """Give a reservation back unused, for a segment that never started."""
        self._close(key)
        self._absorb()

    def _absorb(self) -> None:
        """Count as spent what there is room for."""
        within = min(self.overrun, max(0.0, self.budget - self.spent - self.reserved))
        self.spent += within
        self.overrun -= within
        while self.spent + self.reserved > self.budget:
            self.spent = math.nextafter(self.spent, 0.0)

    def _close(self, key: str) -> None:
        if key not in self._reservations:
            open_ids = ", ".join(sorted(self._reservations)) or "none"
            raise InputError(f"'{key}' holds no reservation (open: {open_ids}): reserve before charging or releasing")
        del self._reservations[key]


def _check_hours(what: str, gpu_hours: float) -> None:
    if not (math.isfinite(gpu_hours) and gpu_hours >= 0):
        raise InputError(f"{what} is {gpu_hours} GPU-hours: it must be a finite number, zero or more")
