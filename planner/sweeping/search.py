"""Optuna's samplers propose configurations beyond the plan's first trials, by ask and tell.

The study lives in memory and is made anew from the view each time. What it is told of a trial is the median of its
predicted score at the target, never the score at which it happens to stand; trials without a prediction are pending.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from budgets.errors import UnknownNameError
from planner.axes import Value, named_configuration
from planner.sweeping.actions import Propose, Why
from planner.sweeping.advancing import MOST_ALTERNATIVES, hours
from planner.sweeping.beliefs import scores_at_target
from planner.sweeping.chances import OUT, Chances
from planner.sweeping.grants import MARGIN
from planner.sweeping.search_space import Space, possible_region
from planner.view import Configuration, OpenCell, View, has_curve

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

SAMPLERS = ("tpe", "gp", "qmc")
MOST_TOLD = 200  # trials, the likeliest first: samplers look at all of them for each proposal
QMC_POINTS = 256


def check_sampler(sampler: str) -> None:
    """Raise UnknownNameError for a sampler that there is not."""
    if sampler not in SAMPLERS:
        raise UnknownNameError("sampler", sampler, SAMPLERS)


def propose_cell(view: View, chances: Chances, sampler: str, gpu_hours: float) -> Propose | None:
    """Return an open cell of the region that is still possible, or None when there is none that can be paid for.

    The sampler suggests whole octaves of n and B in the region's box and a value of every further axis; the open cell
    nearest to that is proposed. A learning rate that is searched for is taken as it is suggested.
    """
    region = possible_region(chances)
    cells = [cell for cell in view.open_cells.values() if cell.cell in region and MARGIN * cell.price <= gpu_hours]
    if not cells:
        return None
    tried = {trial.configuration for trial in view.trials.values()}
    space = Space.of(region, cells, list(tried))
    told = told_trials(view, chances, space)
    with _quiet():
        import optuna

        study = optuna.create_study(direction="maximize", sampler=_sampler(sampler, view))
        study.add_trials(told)
        # A low-discrepancy sequence is a function of the place in it, which a new study would begin again.
        turns = 1 + len(view.trials) % QMC_POINTS if sampler == "qmc" else 1
        for _ in range(turns):
            suggested = study.ask(space.box()).params
    wish = space.wish(suggested)
    nearest = [cell for cell in space.nearest(cells, wish) if space.chosen(cell, wish) not in tried]
    if not nearest:
        return None
    chosen = space.chosen(nearest[0], wish)
    predicted = sum(each.state.name == "COMPLETE" for each in told)
    return Propose(
        chosen.rollouts_per_prompt,
        chosen.prompts_per_batch,
        _why(chosen, nearest, wish, space, sampler, predicted),
        chosen.axes,
    )


def told_trials(view: View, chances: Chances, space: Space) -> list[FrozenTrial]:
    """Return the trials in the space as Optuna is told of them, the likeliest to be the best if they are too many.

    They are complete with the median of their predicted score, failed, or pending.
    """
    from optuna.trial import TrialState as State
    from optuna.trial import create_trial

    inside = [trial for trial in view.trials.values() if trial.configuration in space]
    # Those that have failed are at the end.
    best = {each: float(chances.best[place]) for each, place in chances.place.items()}
    inside = sorted(inside, key=lambda trial: -best.get(trial.configuration, -1.0))[:MOST_TOLD]
    inside.sort(key=lambda trial: trial.trial)
    seen = [trial for trial in inside if has_curve(trial)]
    medians = np.median(scores_at_target(chances.worlds, seen), axis=0)
    median = {trial.trial: float(value) for trial, value in zip(seen, medians, strict=True)}
    box = space.box()
    return [
        create_trial(
            state=State.COMPLETE if trial.trial in median else State.FAIL if trial.state in OUT else State.RUNNING,
            value=median.get(trial.trial),
            params=space.parameters(trial.configuration),
            distributions=box,
        )
        for trial in inside
    ]


def _sampler(sampler: str, view: View) -> BaseSampler:
    from optuna import samplers

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


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to itself what Optuna logs short of errors, and its remarks on experimental samplers."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def _why(
    chosen: Configuration, nearest: list[OpenCell], wish: Mapping[str, Value], space: Space, sampler: str, told: int
) -> Why:
    cell, others = nearest[0], nearest[1 : 1 + MOST_ALTERNATIVES]
    return Why(
        f"{named_configuration(chosen)} is the open cell nearest to what {sampler.upper()} "
        f"suggests from {told} predicted scores; its shortest pilot takes {hours(cell.price)} GPU-hours",
        {
            "sampler": sampler,
            "told": told,
            "suggested": wish,
            "region": space.bounds(),
            "price_gpu_hours": cell.price,
        },
        [
            {
                "action": "propose",
                "rollouts_per_prompt": other.rollouts_per_prompt,
                "prompts_per_batch": other.prompts_per_batch,
                **({"axes": dict(other.axes)} if other.axes else {}),
                "price_gpu_hours": other.price,
            }
            for other in others
        ],
    )
