"""What a sweep is given of its plan: the gains along every configuration's run, by each study of the prior."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from budgets.errors import StoreError
from planner.axes import LEARNING_RATE, rate_factor, without
from planner.prior.draws import prior_draws
from planner.prior.laws import Circumstances, Run
from planner.prior.rates import at_rate
from planner.view import PARTS, Configuration, PlanPrior

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
    for each in priced:
        rule = without(each.configuration.axes, LEARNING_RATE)
        by_name[each.configuration._replace(axes=rule)] = by_name[each.configuration] = each
    if not by_name:
        return None
    runs = [each.run for each in by_name.values()]
    distinct = tuple(dict.fromkeys(runs))
    prior, places = prior_draws(distinct), [distinct.index(run) for run in runs]
    whole = np.array([target_gpu_hours / each.gpu_hours_per_step for each in by_name.values()])
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
