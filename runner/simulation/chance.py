"""Random numbers that follow from what they are for, at a microsecond each.

Numbers are mixed as SplitMix64 does it (Steele, Lea and Flood, 2014), so that any draw of a trial can be had without
those before it.
"""

import math
from statistics import NormalDist
from typing import Final

_WORD: Final = (1 << 64) - 1
_STANDARD: Final = NormalDist()
ROUGH: Final = 25.0  # variance from which a binomial is drawn as the Gaussian that it resembles


def mixed(*numbers: int) -> int:
    """Return 64 bits that look random and follow from the numbers and their order."""
    state = 0
    for number in numbers:
        state = (state ^ number) + 0x9E3779B97F4A7C15 & _WORD
        state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        state = (state ^ state >> 27) * 0x94D049BB133111EB & _WORD
        state ^= state >> 31
    return state


def uniform(*numbers: int) -> float:
    """Return a number between 0 and 1, neither included."""
    return ((mixed(*numbers) >> 11) + 0.5) / (1 << 53)


def normal(*numbers: int) -> float:
    """Return a standard normal number."""
    return _STANDARD.inv_cdf(uniform(*numbers))


def log_uniform(low: float, high: float, *numbers: int) -> float:
    """Return a number whose logarithm is uniform."""
    return low * math.pow(high / low, uniform(*numbers))


def binomial(chance: float, draws: int, *numbers: int) -> int:
    """Return how many of so many draws succeed."""
    if chance <= 0 or chance >= 1:
        return draws if chance >= 1 else 0
    if chance > 0.5:
        return draws - binomial(1 - chance, draws, *numbers)
    mean, variance = draws * chance, draws * chance * (1 - chance)
    if variance > ROUGH:
        return min(draws, max(0, round(mean + math.sqrt(variance) * normal(*numbers))))
    level, odds = uniform(*numbers), chance / (1 - chance)  # the distribution is inverted
    probability = math.exp(draws * math.log1p(-chance))
    below, successes = probability, 0
    while below < level and successes < draws:
        probability *= odds * (draws - successes) / (successes + 1)
        successes += 1
        below += probability
    return successes
