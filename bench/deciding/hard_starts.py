"""Tables of hard starts: base pass rates near .02, curves that rise late and have not bent by the target.

A configuration's score is base + (A - base) / (1 + (middle / hours)^b). Its middle lies at half to twice the target
where n and B are best, and later by a quarter of an octave for each squared octave off them; what is drawn besides is
how its runs depart from that surface.
"""

import itertools
from typing import Final

import numpy as np

from bench.deciding.measuring import measured, places
from planner.replay.recorded import Recorded
from planner.view import Configuration

HARD_STARTS: Final = "hard-starts"
CELLS: Final = tuple(itertools.product((8, 16, 32, 64, 128), (16, 32, 64, 128, 256, 512)))
TARGET: Final = 100.0  # GPU-hours
ANSWERS: Final = 1200
OCTAVES_OFF: Final = 0.125  # log2 of the middle, for each squared octave off the best n or B
OWN: Final = 0.25  # log standard deviation of a configuration's middle about the surface
SEED: Final = 0.08  # and of a run's


def hard_starts(seed: int, points: int | None = None) -> tuple[Recorded, float]:
    """Return a drawn table of one run of each configuration, and its target."""
    rng = np.random.default_rng([seed, 17])
    base, top, exponent = rng.uniform(0.01, 0.03), rng.uniform(0.4, 0.8), rng.uniform(1.3, 2.2)
    best_n, best_B = rng.uniform(3, 7), rng.uniform(4, 9)
    middle = TARGET * rng.uniform(0.5, 2)
    at = places(points or 40, TARGET)
    runs = []
    for n, B in CELLS:
        off = (np.log2(n) - best_n) ** 2 + (np.log2(B) - best_B) ** 2
        own = middle * np.exp2(OCTAVES_OFF * off) * np.exp(rng.normal(0, OWN) + rng.normal(0, SEED))
        mean = base + (top - base) / (1 + (own / np.maximum(at, 1e-9)) ** exponent)
        runs.append(measured(Configuration(n, B), 0, at, mean, ANSWERS, rng))
    return Recorded(tuple(runs)), TARGET
