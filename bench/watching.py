"""What the rules of `rlplan watch` find and cry wolf at: given public curves, and drawn healthy and bad runs.

Of each group it prints how many runs were warned of and, of bad ones, how much of the run was left; and what ending a
given validation curve where nothing is left to win would have saved and lost. `--curves FOLDER` names real curves.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from budgets.errors import InputError
from planner.belief.forecasts import remaining_gain_alone
from planner.curves.curve import Curve, Vector
from planner.curves.files import read_curves
from planner.logs import alarms as rules
from planner.logs.alarms import Scored, falls

CURVES = Path(__file__).parents[2] / "shared" / "curves"
BAD = ("treerl", "ch07_5_kl")  # they slide, and die
VALIDATED = "deepgrpo"  # scores on a test set; the others are of training
COUNTS = (10, 20, 40, 400)
DRAWS = 200
NOISE = (0.005, 0.01, 0.02, 0.04)


def first_warning(scores: Vector, errors: Vector | None) -> int | None:
    """Return after how many validations a run is warned of first."""
    seen = [Scored(float(i), float(y), None if errors is None else float(errors[i])) for i, y in enumerate(scores)]
    return next((upto for upto, warned in enumerate(falls(seen), start=1) if warned), None)


def healthy(rng: np.random.Generator, count: int, noise: float) -> Vector:
    """Draw a sigmoid that rises by up to 0.6, or stands still, with independent errors."""
    x = np.linspace(0.02, 1, count)
    gain, middle = rng.uniform(0, 0.6), rng.uniform(0.05, 0.6)
    return np.clip(rng.uniform(0.1, 0.35) + gain / (1 + (middle / x) ** 2) + rng.normal(0, noise, count), 0, 1)


def sliding(rng: np.random.Generator, count: int, noise: float) -> Vector:
    """Draw one that has risen and then loses half of what it had, from the middle on."""
    x = np.linspace(0, 1, count)
    return np.clip(np.interp(x, [0, 0.4, 0.5, 1.0], [0.2, 0.6, 0.6, 0.3]) + rng.normal(0, noise, count), 0, 1)


def collapsing(rng: np.random.Generator, count: int, noise: float) -> Vector:
    """Draw one that falls to nothing at once after half of the run."""
    x = np.linspace(0, 1, count)
    return np.clip(np.where(x < 0.5, 0.2 + 0.8 * x, 0.02) + rng.normal(0, noise, count), 0, 1)


Draw = Callable[[np.random.Generator, int, float], Vector]


def drawn(name: str, draw: Draw) -> Iterator[str]:
    """Yield a line for each number of validations: with errors told and without."""
    for count in COUNTS:
        cells = []
        for told in (True, False):
            at = []
            for number in range(DRAWS if count < 400 else DRAWS // 10):
                noise = NOISE[number % len(NOISE)]
                scores = draw(np.random.default_rng([count, number]), count, noise)
                at.append(first_warning(scores, np.full(count, noise) if told else None))
            found = [upto for upto in at if upto is not None]
            left = f", {1 - float(np.median(found)) / count:.0%} of the run left" if found else ""
            cells.append(f"{len(found)} of {len(at)}{left}")
        yield f"{name:<12}{count:>5}  {cells[0]:<32}{cells[1]}"


def given(folder: Path) -> Iterator[str]:
    """Yield what the rule says of real curves; a table in which no score is known is named and passed over."""
    curves: dict[str, Curve] = {}
    for file in sorted(folder.glob("*.csv")):
        try:
            curves[file.stem] = read_curves(file)[-1]
        except InputError as error:
            yield f"{file.name} left out: {str(error).partition(';')[0]}"
    groups: dict[bool, list[tuple[str, int | None, int]]] = {True: [], False: []}
    for name, curve in curves.items():
        if curve.bounded:
            bad = any(mark in name for mark in BAD)
            groups[bad].append((name, first_warning(curve.y, None), curve.y.size))
    for bad, found in groups.items():
        warned = [(name, upto, count) for name, upto, count in found if upto is not None]
        told = "; ".join(f"{name} with {1 - upto / count:.0%} left" for name, upto, count in warned)
        yield f"{'bad' if bad else 'healthy'}: {len(warned)} of {len(found)} warned of{': ' if told else ''}{told}"
    yield from ended({name: curve for name, curve in curves.items() if VALIDATED in name and BAD[0] not in name})


def ended(curves: dict[str, Curve]) -> Iterator[str]:
    """Yield what ending each validation curve where nothing is left to win saves and loses."""
    saved, lost = [], []
    for curve in curves.values():
        end = float(curve.x[-1])
        final = float(curve.y[-max(1, curve.y.size // 10) :].mean())
        stop = next(
            (x for x in curve.x[2:-1] if (at := remaining_gain_alone(curve.until(float(x)), end)) and at.won), end
        )
        part = curve.until(float(stop))
        saved.append(1 - float(stop) / end)
        lost.append(final - float(part.y[-max(1, part.y.size // 10) :].mean()))
    yield (
        f"left to win, {len(curves)} validation curves: {np.mean(saved):.0%} of the compute saved, "
        f"{np.mean(lost):+.3f} of score lost on average, {max(lost):+.3f} at worst"
    )


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curves", type=Path, default=CURVES)
    parser.add_argument("--apart", type=float, default=rules.ERRORS_APART, help="errors that a fall has to exceed")
    folder, rules.ERRORS_APART = parser.parse_args().curves, parser.parse_args().apart
    print(f"{'drawn':<12}{'':>5}  {'warned of, errors told':<32}without")
    for name, draw in (("healthy", healthy), ("sliding", sliding), ("collapsing", collapsing)):
        for line in drawn(name, draw):
            print(line)
    if folder.is_dir():
        print(f"\ngiven curves ({folder.name})")
        for line in given(folder):
            print(line)


if __name__ == "__main__":
    main()
