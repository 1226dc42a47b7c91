"""How often the 90 % intervals of laws hold the truth, on drawn curves that obey the law.

    python -m bench.law_coverage [--curves 50]

The sigmoid is seen to 0.5, 1, 2 and 5 times its C_mid, by 12 points with a noise of 0.01 or 30 with 0.02; a power law
to as many times 4 times its points.
"""

import argparse
import math

import numpy as np

from planner.curves.curve import Curve
from planner.curves.gain_curve import draw_power_law, draw_sigmoid, interval

SEEN = (0.5, 1.0, 2.0, 5.0)
POINTS = ((12, 0.01), (30, 0.02))


def held(law: str, seen: float, count: int, noise: float, seed: int) -> list[tuple[bool, float]]:
    """Draw one curve; return for A and the score at 4 times the last x whether its interval holds it, and the width."""
    random = np.random.default_rng([seed, int(seen * 10), count])
    start, top = random.uniform(0, 0.4), random.uniform(0.5, 0.95)
    low, high = (0.6, 4.0) if law == "sigmoid" else (0.2, 2.0)
    steep = math.exp(random.uniform(math.log(low), math.log(high)))
    last, draw = (seen, draw_sigmoid) if law == "sigmoid" else (4 * count * seen, draw_power_law)
    x = np.linspace(last / count if law == "sigmoid" else 1.0, last, count)

    def score(x: np.ndarray) -> np.ndarray:
        return start + (top - start) * (1 / (1 + x**-steep) if law == "sigmoid" else 1 - x**-steep)

    fit = draw(Curve.of("drawn", x, np.clip(score(x) + random.normal(0, noise, count), 0, 1)))
    four = 4 * x[-1:]
    ends = [
        (interval(fit.parameters["A"], fit.levels), top),
        (interval(fit.values(four), fit.levels)[:, 0], score(four)),
    ]
    return [(bool(low <= truth <= high), float(high - low)) for (_, low, high), truth in ends]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--curves", type=int, default=50)
    seeds = range(parser.parse_args().curves)
    print("| law | seen to | A held | width | 4 × held | width |\n|---|---|---|---|---|---|")
    for law in ("sigmoid", "power"):
        for seen in SEEN:
            found = np.array([held(law, seen, *points, seed) for points in POINTS for seed in seeds])
            (a, a_width), (four, four_width) = found.mean(axis=0)
            print(f"| {law} | {seen:g} | {a:.0%} | {a_width:.3f} | {four:.0%} | {four_width:.3f} |", flush=True)


if __name__ == "__main__":
    main()
