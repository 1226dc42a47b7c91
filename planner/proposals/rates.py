"""The learning rates of planned trials where a sweep searches for the rate: the whole range, evenly, from the start."""

import math
from collections.abc import Sequence

from planner.axes import rounded_rate


def spread_rates(between: tuple[float, float] | None, has_pilot: Sequence[bool]) -> list[float | None]:
    """Return a factor on the rule's rate for each candidate, None for all without a range to search.

    The first pilot has the rule's own rate, or what of the range is nearest to it; the others follow the sequence of
    van der Corput (1935) over the logarithm of the range, so that however many there are, they lie evenly in it. What
    has no pilot keeps the first one's until the search chooses.
    """
    if between is None:
        return [None] * len(has_pilot)
    low, high = between
    rule = min(high, max(low, 1.0))
    rates: list[float | None] = []
    place = 0
    for pilot in has_pilot:
        share = _van_der_corput(place) if pilot and place else None
        rates.append(rule if share is None else rounded_rate(low * math.exp(share * math.log(high / low)), between))
        place += pilot
    return rates


def _van_der_corput(number: int) -> float:
    """Return the digits of a number in base 2, mirrored at the point."""
    mirrored, part = 0.0, 0.5
    while number:
        mirrored += part * (number & 1)
        number >>= 1
        part /= 2
    return mirrored
