"""How long a full posterior takes, against the published grid of `curve_fit`: the same curves, in one run.

Ours fits 1,000 curves of 100 points at once (parameters, verdict and one prediction each) and one curve of 500 points
by itself; the published fit (7,100 calls of scipy's `curve_fit`) takes that one curve. Both in turn, medians of 5.
"""

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
from baselines import published_grid

from planner.curves.curve import Curve
from planner.curves.fit import fit_curves

REPEATS = 5
CURVES, POINTS = 1000, 100
LONG = 500
BAR_MILLISECONDS = 1.0
BAR_RATIO = 1000.0


def main() -> int:
    """Print the table, and return how many bars were missed."""
    rng = np.random.default_rng(0)
    many = [sigmoid(rng, POINTS) for _ in range(CURVES)]
    long = sigmoid(rng, LONG)
    target = 4 * float(long.x[-1])
    grid = published_grid(full=True)
    batched, alone, published = [], [], []
    fit_curves(many[:64], [[target]] * 64)
    for _ in range(REPEATS):
        batched.append(1000 * timed(lambda: fit_curves(many, [[target]] * CURVES)) / CURVES)
        alone.append(1000 * timed(lambda: fit_curves([long], [[target]])))
        published.append(1000 * timed(lambda: grid(long, target)))
    each, single, peer = (statistics.median(times) for times in (batched, alone, published))
    ratio = statistics.median(p / o for p, o in zip(published, batched, strict=True))
    rows = (
        (f"ours, {CURVES} curves x {POINTS} points, batched", f"{each:.2f} ms", verdict(each <= BAR_MILLISECONDS)),
        (f"ours, one curve x {LONG} points", f"{single:.2f} ms", ""),
        (f"published grid of curve_fit, one x {LONG} points", f"{peer:,.0f} ms", ""),
        ("published / ours batched", f"{ratio:,.0f} x", verdict(ratio >= BAR_RATIO)),
        ("published / ours alone", f"{peer / single:,.0f} x", ""),
    )
    print(f"{'what':<46} {'a curve':>10}  bar")
    for what, figure, met in rows:
        print(f"{what:<46} {figure:>10}  {met}")
    return int(each > BAR_MILLISECONDS) + int(ratio < BAR_RATIO)


def verdict(met: bool) -> str:
    """Say whether a bar was met."""
    return "met" if met else "MISSED"


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a piece of work takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def sigmoid(rng: np.random.Generator, points: int) -> Curve:
    """Draw a curve that has seen part of its rise."""
    x = np.linspace(1, 100, points)
    midpoint, exponent = rng.uniform(10, 300), rng.uniform(0.7, 3.0)
    scores = 0.3 + 0.4 / (1 + (midpoint / x) ** exponent) + 0.02 * rng.standard_normal(points)
    return Curve.of("drawn", x, np.clip(scores, 0, 1), bounded=True)


if __name__ == "__main__":
    sys.exit(main())
