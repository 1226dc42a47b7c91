"""Pairs of recorded runs: how far differences of their beginnings held at their ends, and the terms that say so."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.deciding.whole_tables import PARTS, WholeTable
from planner.curves.curve import Vector
from planner.policy.calibration import Calibration, Reading, quadratic_terms, read_curve, scale
from planner.policy.champion import rate_octaves, usual_among
from planner.replay.recorded import RecordedRun
from planner.view import Configuration, ScorePoint

LOOKS: Final = (0.025, 0.05, 0.1, 0.2, 0.4)  # shares of the run
PAIRS: Final = 60  # that are drawn of a table at each look and length, beside those with the usual choice
NEAR: Final = 0.3  # how far a look may lie from its share, in proportion
MOST_MISSING: Final = 0.2  # of a table's configurations
RIDGE_UNTRIED, RIDGE = 0.5, 0.02
BEFORE: Final = 0.8  # of a run, from where its rise at the end is taken
REAL_WEIGHT: Final = 4.0  # of a family of recorded runs beside a generator's, whose directions were drawn


Readings = Mapping[Configuration, Reading]
Scores = Mapping[Configuration, float]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Hold a row a pair, as `_row` makes it, and the family that it is of."""

    family: NDArray[np.str_]
    rows: Vector

    @classmethod
    def of(cls, tables: Sequence[WholeTable], seed: int = 0) -> "Pairs":
        """Draw pairs of every table."""
        rng = np.random.default_rng(seed)
        rows: list[tuple[float, ...]] = []
        families: list[str] = []
        for table in tables:
            some = list(_of_table(table, rng))
            rows += some
            families += [table.family] * len(some)
        return cls(np.array(families), np.array(rows, dtype=float))

    def without(self, family: str) -> "Pairs":
        """Return the pairs of all other families."""
        others = self.family != family
        return Pairs(self.family[others], self.rows[others])

    def weights(self, mask: NDArray[np.bool_]) -> Vector:
        """Return equal weights for all families, recorded ones counting more."""
        names, places = np.unique(self.family, return_inverse=True)
        counts = np.bincount(places[mask], minlength=len(names))
        own = np.where([name[0] in "AP" for name in names], REAL_WEIGHT, 1.0)
        return np.asarray(np.where(mask, (own / np.maximum(counts, 1))[places], 0.0))


def _of_table(table: WholeTable, rng: np.random.Generator) -> Iterator[tuple[float, ...]]:
    runs: dict[Configuration, list[RecordedRun]] = {}
    for run in table.recorded.runs:
        runs.setdefault(run.configuration, []).append(run)
    for part in PARTS:
        total = part * table.length
        ends, before = table.recorded.truth(total), table.recorded.truth(BEFORE * total)
        for look in LOOKS:
            read = {choice: reading for choice, of in runs.items() if (reading := _read(of[0], look, total))}
            if len(read) < (1 - MOST_MISSING) * len(runs):
                continue
            choices = list(read)
            usual = [choice for choice in usual_among(runs) if choice in read]
            couples = [(usual[rng.integers(len(usual))], choice) for choice in choices] if usual else []
            couples += [
                tuple(choices[place] for place in rng.choice(len(choices), 2, replace=False)) for _ in range(PAIRS)
            ]
            for one, other in couples:
                if one != other:
                    yield _row(look, one, other, read, ends, before)


def _read(run: RecordedRun, look: float, total: float) -> Reading | None:
    """Read a run up to the score nearest to a look; None where that lies elsewhere or is the first."""
    last = max(1, int(np.abs(run.gpu_hours - look * total).argmin())) if len(run.gpu_hours) > 1 else 0
    if last < 1 or abs(run.gpu_hours[last] / (look * total) - 1) >= NEAR:
        return None
    points = [
        ScorePoint(place, gpu_hours, score, None)
        for place, (gpu_hours, score) in enumerate(zip(run.gpu_hours[: last + 1], run.scores[: last + 1], strict=True))
    ]
    return read_curve(points, total)


def _row(
    look: float, one: Configuration, other: Configuration, read: Readings, ends: Scores, before: Scores
) -> tuple[float, ...]:
    own, new = read[one], read[other]
    width = scale(own.line)
    rates = rate_octaves(one.axes), rate_octaves(other.axes)
    rate = 0.0 if rates[0] is None or rates[1] is None else abs(rates[1]) - abs(rates[0])
    quadratic = quadratic_terms(one, other)
    return (
        look,
        width,
        (new.level - own.level) / width,
        (new.line - own.line) / width,
        quadratic[1],
        quadratic[0],
        rate,
        float(one.axes != other.axes),
        (ends[other] - ends[one]) / width,
        (ends[one] - before[one]) / width / -math.log(BEFORE),
        *quadratic,
    )


def fit(pairs: Pairs) -> Calibration:
    """Fit the terms of pairs before any look and after one, by ridge regression over families of equal weight."""
    rows = pairs.rows
    look, other_axes, ends, quadratics = rows[:, 0], rows[:, 7], rows[:, 8], rows[:, 10:]
    weights = pairs.weights(np.ones(len(rows), dtype=bool))
    prior = _ridge(quadratics, ends, weights, RIDGE_UNTRIED)
    rest = ends - quadratics @ prior
    sds = [_rms(rest[mask], weights[mask]) for mask in (other_axes == 0, other_axes == 1)]
    looks = []
    for share in LOOKS:
        mask = look == share
        own = pairs.weights(mask)[mask]
        terms = rows[mask, 2:7]
        found = _ridge(terms, ends[mask], own, RIDGE)
        sd = _rms(ends[mask] - terms @ found, own)
        explained = max(0.0, 1 - (sd / _rms(rest[mask], own)) ** 2)
        named = ("level", "line", "batch_octave", "rollout_octave", "rate_octave")
        looks.append(
            {"share": share, **dict(zip(named, found.tolist(), strict=True)), "sd": sd, "explained": explained}
        )
    prior_terms = {"quadratic": prior.tolist(), "sd": sds[0], "other_axes_sd": sds[1]}
    rise = float(np.average(rows[:, 9], weights=weights))
    data = {"prior": {**prior_terms, "rise": rise}, "looks": looks}
    return Calibration.of(data)


def _ridge(terms: Vector, values: Vector, weights: Vector, ridge: float) -> Vector:
    scaled = terms * np.sqrt(weights)[:, None]
    within = scaled.T @ scaled + ridge * np.eye(terms.shape[1])
    return np.asarray(np.linalg.solve(within, scaled.T @ (values * np.sqrt(weights))))


def _rms(values: Vector, weights: Vector) -> float:
    return float(np.sqrt(np.average(values**2, weights=weights)))


def as_toml(fitted: Calibration) -> str:
    """Write a calibration as `pairs.toml` has it."""
    lines = ["# Written by `python -m bench.champion`; the terms are explained in calibration.py.", "[prior]"]
    lines += [f"quadratic = [{', '.join(f'{value:.5g}' for value in fitted.quadratic)}]"]
    lines += [f"sd = {fitted.sd:.4g}", f"other_axes_sd = {fitted.other_axes_sd:.4g}", f"rise = {fitted.rise:.4g}"]
    for look in fitted.looks:
        lines += ["", "[[looks]]", *(f"{name} = {value:.4g}" for name, value in asdict(look).items())]
    return "\n".join(lines) + "\n"
