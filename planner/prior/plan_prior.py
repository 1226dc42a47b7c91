"""What a sweep is given of its plan: the gains along every configuration's run, by each study of the prior."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import Any, Final

import numpy as np

from budgets.errors import StoreError
from planner.axes import LEARNING_RATE, rate_factor, without
from planner.prior.draws import Weights, prior_draws
from planner.prior.laws import MOST_GAIN, Circumstances, Run, loss
from planner.prior.studies import RATE_MISS, WIDTHS, Values
from planner.view import PARTS, Configuration, PlanPrior

LEAST_RETENTION: Final = 0.2  # of the gain at any rate: no other is thought to gain more than five times as much


# The learning rate's miss: where the best rate lies from the rule's is drawn, and a run at any rate loses by the way.
# Studies ran at rates near the rule's, so what they say holds of it; another rate keeps a share of the gain, of what
# the rule's keeps in the same draw, the same for all n and B, since the rule scales with them. Early on a rate shows
# its speed, of which half holds at the end, and a collapse is not seen yet.
def at_rate(scores: Values, base: float, factor: float, share: float | Values = 1.0) -> Values:
    """Return scores in all draws, one a row, as they would be at so many times the rule's learning rate.

    `share` is the part of a final run after which they are, one for all or one for each column.
    """
    gains = _retained(scores - base, _retention(factor, len(scores)), share)
    return np.asarray(base + np.minimum(gains, MOST_GAIN * (1 - base)), dtype=np.float32)


def retained_gain(factor: float) -> float:
    """Return the share of its gain that a run is expected to keep at so many times the rule's learning rate."""
    return float(_retention(factor, 4096)[1].mean())


def of_its_own(scores: Values, base: float, weights: Weights, number: int, share: float | Values = 1.0) -> Values:
    """Return scores in all draws with what one of several recipes or models gains otherwise: no study tells of that.

    `share` is the part of a final run after which they are, one for all or one for each column: as with rates, of an
    early lead a half holds.
    """
    gains = scores - base
    otherwise = _retained(gains, _own(number, len(weights)), share)
    expected, own_expected = weights @ gains, weights @ otherwise
    alike = np.divide(expected, own_expected, out=np.ones_like(expected), where=own_expected != 0)  # none is ahead
    return np.asarray(base + otherwise * alike, dtype=np.float32)


def _retained(gains: Values, shares: tuple[Values, Values], share: float | Values) -> Values:
    """Return gains of which a draw keeps one part early on, and another at the end."""
    early, end = (values.reshape(len(gains), *(1,) * (gains.ndim - 1)) for values in shares)
    retained: Values = gains * (early * (1 - share) + end * share)
    return retained


@cache
def _own(number: int, draws: int) -> tuple[Values, Values]:
    """Return what one of several gains, of what all do, in each draw: early on, and at the end."""
    noise, speed = np.random.default_rng([2, number]).standard_normal((2, draws), dtype=np.float32)
    end = 1 + WIDTHS.variant * noise
    return end * np.exp(RATE_MISS.early * speed), end


@cache
def _retention(factor: float, draws: int) -> tuple[Values, Values]:
    """Return what a rate keeps of the gain that the rule's has, in each draw: early on, and at the end."""
    normals = np.random.default_rng(3).standard_normal((2, draws))
    best, speed = (normals - normals.mean(axis=1, keepdims=True)) / normals.std(axis=1, keepdims=True)
    # So many octaves above the rule's lies the best rate; at the rule's no study collapsed.
    best = np.maximum(fmean(RATE_MISS.best) + stdev(RATE_MISS.best) * best, -RATE_MISS.collapse)
    octaves = math.log2(factor)
    retained, rule = (np.maximum(LEAST_RETENTION, 1 - RATE_MISS.loss * loss(at - best)) for at in (octaves, 0.0))
    early = retained / rule * (np.exp(RATE_MISS.early * speed) if octaves else 1)
    return early, np.where(octaves - best > RATE_MISS.collapse, 0, retained / rule)


LARGEST = 1e18  # number that the workload of a plan can have
# What a plan's stored workload must say; those of before `experts` was kept have none.
NEEDED = ("parameters", "response_tokens", "mean_pass_rate", "prompt_set_size")


@dataclass(frozen=True, slots=True)
class Priced:
    """A run of a configuration, and what its plan takes a step to cost."""

    configuration: Configuration
    run: Run
    gpu_hours_per_step: float


def prior_of_plan(priced: Iterable[Priced], target_gpu_hours: float) -> PlanPrior | None:
    """Return what the prior expects along final runs of so many GPU-hours; None of nothing.

    Beside each at its learning rate is the same at the rule's: a sweep that searches for the rate has others.
    """
    by_name: dict[Configuration, Priced] = {}
    for planned in priced:
        rule = without(planned.configuration.axes, LEARNING_RATE)
        by_name[planned.configuration._replace(axes=rule)] = by_name[planned.configuration] = planned
    if not by_name:
        return None
    runs = [planned.run for planned in by_name.values()]
    distinct = tuple(dict.fromkeys(runs))
    prior, places = prior_draws(distinct), [distinct.index(run) for run in runs]
    whole = np.array([target_gpu_hours / planned.gpu_hours_per_step for planned in by_name.values()])
    bases = np.array([run.circumstances.pass_rate for run in runs])
    along = [prior.expected(places, np.maximum(1, part * whole).astype(int).tolist()).scores for part in PARTS]
    for place, (name, base) in enumerate(zip(by_name, bases.tolist(), strict=True)):
        if (factor := rate_factor(name.axes)) != 1:
            for part, scores in zip(PARTS, along, strict=True):
                scores[:, place] = at_rate(scores[:, place], base, factor, part)
    weights, means = zip(*(prior.by_study(scores) for scores in along), strict=True)
    gains = (np.stack(means, axis=-1) - bases[:, np.newaxis]) / (1 - bases[:, np.newaxis])  # (studies, runs, parts)
    return PlanPrior(
        weights=tuple(weights[0].tolist()),
        gains={name: tuple(map(tuple, gains[:, place].tolist())) for place, name in enumerate(by_name)},
    )


def circumstances_of(workload: Mapping[str, Any]) -> Circumstances | None:
    """Return those of a stored plan; None where it does not say what they depend on."""
    if any(workload.get(name) is None for name in NEEDED):
        return None
    values = [workload[name] for name in NEEDED]
    if any(not isinstance(value, int | float) or not 0 < value < LARGEST for value in values) or values[2] >= 1:
        stored = ", ".join(f"{name} {str(value)[:20]}" for name, value in zip(NEEDED, values, strict=True))
        raise StoreError(f"a plan is damaged: its workload has {stored}. Go back to a copy of the database")
    parameters, response_tokens, pass_rate, prompts = values
    return Circumstances(parameters, bool(workload.get("experts")), response_tokens, pass_rate, prompts)
