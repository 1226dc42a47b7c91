"""How the best n, or the best n·B, moves with compute: a law where the evidence has one, else what it has instead.

IsoCompute (arXiv 2603.12151) fits log2 n* = L / (1 + exp(−k (log10 C − c0))) + b to the n of a frontier. Here it is
fitted to the mean over the draws of log2 n of the draw's winner, which knows how sure each step of the frontier is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from budgets.errors import InputError
from planner.curves.curve import Curve
from planner.curves.families.sigmoid import Sigmoid
from planner.group_law import OptimalGroupLaw
from planner.recommending.prospect import LEVEL, Prospect, Vector

SURE = 0.8  # P(the best n grows, or falls) from which on it is said that it does
LEAST_MOVE = 0.5  # octaves over the whole range; less is no movement
STEEPEST = 50.0 / math.log(10)  # where the study pins its steepness: the law is then a step
BEYOND = 1.0  # octaves that floor and ceiling may lie beyond what was tried
SATURATED = 0.5  # octaves below the ceiling at the last compute, from which on it counts as reached

Edge = Literal["largest", "smallest"]


@dataclass(frozen=True, slots=True)
class Trend:
    """A quantity of the best configuration along compute; means are geometric, bands of 90 %.

    `grows`, `stays` and `falls` are probabilities that the winner at the highest compute has more of it than the one
    at the lowest. `edge` names the end of the grid where the winner is likelier than not at the target.
    """

    quantity: str
    gpu_hours: tuple[float, ...] = field(repr=False)
    mean: tuple[float, ...] = field(repr=False)
    low: tuple[float, ...] = field(repr=False)
    high: tuple[float, ...] = field(repr=False)
    grows: float
    stays: float
    falls: float
    edge: Edge | None
    law: OptimalGroupLaw | None  # of GPU-hours
    sentence: str


def trend(prospect: Prospect, rungs: Sequence[int], quantity: str, values: Sequence[int]) -> Trend:
    """Return how a whole number of the configurations moves along the frontier."""
    logs = np.log2(np.asarray(values, dtype=float))
    winners = np.stack([_winning(prospect, rung, logs) for rung in rungs])
    mean = np.asarray(winners.mean(axis=1))
    low, high = np.quantile(winners, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    change = winners[-1] - winners[0]
    grows, falls = float((change > 1e-9).mean()), float((change < -1e-9).mean())
    gpu_hours = prospect.gpu_hours[list(rungs)]
    able = prospect.able[prospect.rung(0)]
    edge = _edge(winners[list(rungs).index(prospect.rung(0))], logs[able])
    moves = max(grows, falls) >= SURE and abs(mean[-1] - mean[0]) >= LEAST_MOVE
    law = _law(gpu_hours, mean) if moves else None
    return Trend(
        quantity=quantity,
        gpu_hours=tuple(gpu_hours.tolist()),
        mean=tuple(np.exp2(mean).tolist()),
        low=tuple(np.exp2(low).tolist()),
        high=tuple(np.exp2(high).tolist()),
        grows=grows,
        stays=max(0.0, 1 - grows - falls),
        falls=falls,
        edge=edge,
        law=law,
        sentence=_sentence(quantity, gpu_hours, np.exp2(mean), (grows, falls), edge, law, moves),
    )


def _winning(prospect: Prospect, rung: int, logs: Vector) -> Vector:
    """Return the quantity of each draw's winner; where several tie, their mean."""
    able = prospect.able[rung]
    scores = prospect.scores[rung]
    first = (scores >= prospect.best(rung)[:, None]) & able
    return np.asarray((first * logs).sum(axis=1) / first.sum(axis=1))


def _edge(winners: Vector, logs: Vector) -> Edge | None:
    low, high = float(logs.min()), float(logs.max())
    if low == high:
        return None
    if (winners >= high - 1e-9).mean() > 0.5:
        return "largest"
    return "smallest" if (winners <= low + 1e-9).mean() > 0.5 else None


def _law(gpu_hours: Vector, mean: Vector) -> OptimalGroupLaw | None:
    family = Sigmoid(limits=(float(mean.min()) - BEYOND, float(mean.max()) + BEYOND), steepest=STEEPEST)
    try:
        found = family.fit(Curve.of("log2", gpu_hours, mean, bounded=False))
    except InputError:
        return None
    return OptimalGroupLaw(
        rise=found.A - found.R0,
        steepness=found.B * math.log(10),
        midpoint=math.log10(found.C_mid),
        floor=found.R0,
    )


def _sentence(
    quantity: str,
    gpu_hours: Vector,
    mean: Vector,
    chances: tuple[float, float],
    edge: Edge | None,
    law: OptimalGroupLaw | None,
    moves: bool,
) -> str:
    grows, falls = chances
    span = f"from {gpu_hours[0]:.3g} to {gpu_hours[-1]:.3g} GPU-hours"
    ends = f"about {mean[0]:.3g} to about {mean[-1]:.3g}"
    at_edge = f"; at the target it is likeliest the {edge} of the grid, so that it may lie beyond" if edge else ""
    if not moves:
        middle = float(np.exp2(np.log2(mean).mean()))
        return (
            f"the best {quantity} is not seen to move {span}: about {middle:.3g} (P(it grows) = {grows:.2f}, "
            f"P(it falls) = {falls:.2f}){at_edge}"
        )
    verb, chance = ("grows", grows) if grows >= falls else ("falls", falls)
    said = f"the best {quantity} {verb} {span} from {ends} (P = {chance:.2f})"
    return f"{said}{_saturation(law, gpu_hours, mean)}{at_edge}"


def _saturation(law: OptimalGroupLaw | None, gpu_hours: Vector, mean: Vector) -> str:
    if law is None:
        return ""
    ceiling = 2 ** (law.floor + law.rise)
    left = abs(math.log2(ceiling) - math.log2(law(float(gpu_hours[-1]))))
    if left <= SATURATED:
        return f" and has saturated near {ceiling:.3g}"
    return "; where it saturates is not seen yet"
