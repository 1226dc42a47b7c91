"""Optuna's samplers propose cells beyond the plan's first trials, by ask and tell.

The study lives in memory and is made anew from the view each time. What it is told of a trial is the median of its
predicted score at the target, never the score at which it happens to stand; trials without a prediction are pending.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from budgets.errors import UnknownNameError
from planner.sweeping.actions import Propose, Why
from planner.sweeping.advancing import MOST_ALTERNATIVES, hours
from planner.sweeping.beliefs import Beliefs, Standing
from planner.sweeping.pruning import ALPHA
from planner.sweeping.region import Region, octaves, open_in, possible_region
from planner.sweeping.view import OpenCell, View
from planner.trials import TrialState

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.study import Study
    from optuna.trial import FrozenTrial

SAMPLERS = ("tpe", "gp", "qmc")
N, B = "log2_rollouts_per_prompt", "log2_prompts_per_batch"
MOST_TOLD = 200  # trials, the likeliest first: samplers look at all of them for each proposal
QMC_POINTS = 256


def check_sampler(sampler: str) -> None:
    """Raise UnknownNameError for a sampler that there is not."""
    if sampler not in SAMPLERS:
        raise UnknownNameError("sampler", sampler, SAMPLERS)


def propose_cell(
    view: View, beliefs: Beliefs, sampler: str, alpha: float = ALPHA, gpu_hours: float | None = None
) -> Propose | None:
    """Return an open cell of the region that is still possible, or None when there is none that can be paid for.

    The sampler suggests whole octaves of n and B in the region's box; the open cell nearest to them is proposed.
    """
    check_sampler(sampler)
    standing = beliefs.standing(view)
    region = possible_region(standing, alpha)
    if region is None:
        return None
    cells = open_in(region, view, view.gpu_hours_left if gpu_hours is None else gpu_hours)
    if not cells:
        return None
    rows = told_rows(standing, region)
    with _quiet():
        study = _study(standing, rows, region, sampler, view)
        # A low-discrepancy sequence is a function of the place in it, which a new study would begin again.
        turns = 1 + len(view.trials) % QMC_POINTS if sampler == "qmc" else 1
        for _ in range(turns):
            suggested = study.ask(_box(region)).params
    wish = float(suggested[N]), float(suggested[B])
    nearest = sorted(cells, key=lambda cell: (math.dist(octaves(cell.cell), wish), cell.price, cell.cell))
    return Propose(
        nearest[0].rollouts_per_prompt,
        nearest[0].prompts_per_batch,
        _why(nearest, wish, region, sampler, int(standing.seen[rows].sum())),
    )


def told_rows(standing: Standing, region: Region) -> list[int]:
    """Return the rows that the sampler is told of: those in the region, the likeliest to be the best if too many."""
    trials = standing.table.trials
    # Stepping through rows in this order and ending early spares a look at thousands of hopeless ones.
    order = np.argsort(-standing.probability_best_of_seen, kind="stable")
    inside = (int(row) for row in order if trials[row].cell in region)
    return sorted(row for _, row in zip(range(MOST_TOLD), inside, strict=False))


def frozen(standing: Standing, row: int, region: Region) -> FrozenTrial:
    """Return a trial as Optuna is told of it: complete with its prediction, failed, or pending."""
    from optuna.trial import TrialState as State  # noqa: PLC0415
    from optuna.trial import create_trial  # noqa: PLC0415

    trial = standing.table.trials[row]
    parameters = dict(zip((N, B), octaves(trial.cell), strict=True))
    if standing.seen[row]:
        state, value = State.COMPLETE, float(standing.median[row])
    else:
        out = trial.state in {TrialState.FAILED, TrialState.PRUNED}
        state, value = State.FAIL if out else State.RUNNING, None
    return create_trial(
        state=state,
        value=value,
        params={name: round(place) for name, place in parameters.items()},
        distributions=_box(region),
    )


def _study(standing: Standing, rows: list[int], region: Region, sampler: str, view: View) -> Study:
    import optuna  # noqa: PLC0415

    study = optuna.create_study(direction="maximize", sampler=_sampler(sampler, view))
    study.add_trials([frozen(standing, row, region) for row in rows])
    return study


def _sampler(sampler: str, view: View) -> BaseSampler:
    from optuna import samplers  # noqa: PLC0415

    seed = (view.seed * 1_000_003 + len(view.trials)) % 2**32
    if sampler == "gp":
        return samplers.GPSampler(seed=seed)
    if sampler == "qmc":
        return samplers.QMCSampler(
            scramble=True,
            seed=view.seed % 2**32,
            independent_sampler=samplers.RandomSampler(seed=seed),
            warn_independent_sampling=False,
        )
    return samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)


def _box(region: Region) -> dict[str, BaseDistribution]:
    from optuna.distributions import IntDistribution  # noqa: PLC0415

    return {name: IntDistribution(low, high) for name, low, high in zip((N, B), region.low, region.high, strict=True)}


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to itself what Optuna logs short of errors, and its remarks on experimental samplers."""
    import optuna  # noqa: PLC0415

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def _why(nearest: list[OpenCell], wish: tuple[float, float], region: Region, sampler: str, told: int) -> Why:
    cell, others = nearest[0], nearest[1 : 1 + MOST_ALTERNATIVES]
    return Why(
        f"n={cell.rollouts_per_prompt}, B={cell.prompts_per_batch} is the open cell nearest to what {sampler.upper()} "
        f"suggests from {told} predicted scores; its shortest pilot takes {hours(cell.price)} GPU-hours",
        {
            "sampler": sampler,
            "told": told,
            "suggested": {N: wish[0], B: wish[1]},
            "region": {N: [region.low[0], region.high[0]], B: [region.low[1], region.high[1]]},
            "price_gpu_hours": cell.price,
        },
        [
            {
                "action": "propose",
                "rollouts_per_prompt": other.rollouts_per_prompt,
                "prompts_per_batch": other.prompts_per_batch,
                "price_gpu_hours": other.price,
            }
            for other in others
        ],
    )
