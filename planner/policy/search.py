"""Optuna's samplers propose configurations beyond the plan's first trials, by ask and tell.

The study lives in memory and is made anew from the view each time. What it is told of a trial is the median of its
predicted score at the target, never the score at which it happens to stand; trials without a prediction are pending.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from budgets.errors import UnknownNameError
from planner.axes import (
    LEARNING_RATE,
    Value,
    named_configuration,
    rounded_rate,
    value_of,
    values_by_axis,
    with_rate,
    without,
)
from planner.policy.actions import Propose, Why
from planner.policy.chances import ALPHA, OUT, Chances, bar, scores_at_target
from planner.policy.grants import MARGIN
from planner.policy.table import MOST_ALTERNATIVES, hours
from planner.view import Cell, Configuration, OpenCell, View, has_curve

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

SAMPLERS = ("tpe", "gp", "qmc")
MOST_TRIALS = 200  # trials, the likeliest first: samplers look at all of them for each proposal
QMC_POINTS = 256

N, B = "log2_rollouts_per_prompt", "log2_prompts_per_batch"


@dataclass(frozen=True, slots=True)
class Region:
    """A box in whole octaves, both ends in it."""

    ends: Mapping[str, tuple[int, int]]  # of log2 n and of log2 B

    def __contains__(self, cell: Cell) -> bool:
        return all(low <= place <= high for (low, high), place in zip(self.ends.values(), octaves(cell), strict=True))


def octaves(cell: Cell) -> tuple[float, float]:
    """Return (log2 n, log2 B)."""
    return math.log2(cell[0]), math.log2(cell[1])


def possible_region(chances: Chances) -> Region:
    """Return the box around the configurations that would not be given up: the best one is always among them."""
    limit = bar(ALPHA, len(chances.candidates))
    possible = [candidate for candidate, near in zip(chances.candidates, chances.near, strict=True) if near >= limit]
    places = np.array([octaves(choice[:2]) for choice in [chances.candidates[chances.leader], *possible]])
    ends = zip(np.floor(places.min(axis=0)).astype(int), np.ceil(places.max(axis=0)).astype(int), strict=True)
    return Region({name: (int(low), int(high)) for name, (low, high) in zip((N, B), ends, strict=True)})


@dataclass(frozen=True, slots=True)
class Space:
    """A box of n and B, the axes with more than one value, and the range of the learning rate if that is searched."""

    region: Region
    named: Mapping[str, tuple[Value, ...]]
    learning_rates: tuple[float, float] | None

    @classmethod
    def of(cls, region: Region, cells: Sequence[OpenCell], tried: Sequence[Configuration]) -> Space:
        """Return the space of open cells and of what was tried."""
        between = cells[0].learning_rates if cells else None
        axes = [*(cell.axes for cell in cells), *(configuration.axes for configuration in tried)]
        by_axis = values_by_axis(without(axis, LEARNING_RATE) if between else axis for axis in axes)
        return cls(region, {name: tuple(values) for name, values in by_axis.items() if len(values) > 1}, between)

    def __contains__(self, configuration: Configuration) -> bool:
        return (configuration.rollouts_per_prompt, configuration.prompts_per_batch) in self.region

    def box(self) -> dict[str, BaseDistribution]:
        """Return what Optuna is to choose from."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        box: dict[str, BaseDistribution] = {name: IntDistribution(*ends) for name, ends in self.region.ends.items()}
        box |= {name: CategoricalDistribution(values) for name, values in self.named.items()}
        if self.learning_rates:
            box[LEARNING_RATE] = FloatDistribution(*self.learning_rates, log=True)
        return box

    def bounds(self) -> dict[str, list[Value]]:
        """Return the box as it is stored."""
        rates = {LEARNING_RATE: self.learning_rates} if self.learning_rates else {}
        return {name: [*values] for name, values in (*self.region.ends.items(), *self.named.items(), *rates.items())}

    def parameters(self, configuration: Configuration) -> dict[str, Any]:
        """Return a configuration of the space as Optuna knows it."""
        n, prompts = octaves((configuration.rollouts_per_prompt, configuration.prompts_per_batch))
        values: dict[str, Any] = {N: round(n), B: round(prompts)}
        values |= {name: value_of(configuration.axes, name) for name in self.named}
        if self.learning_rates:
            values[LEARNING_RATE] = value_of(configuration.axes, LEARNING_RATE)
        return values

    def wish(self, suggested: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a sampler suggested as it is stored, the learning rate as it is run."""
        wish = {N: float(suggested[N]), B: float(suggested[B]), **{name: suggested[name] for name in self.named}}
        if self.learning_rates:
            wish[LEARNING_RATE] = rounded_rate(float(suggested[LEARNING_RATE]), self.learning_rates)
        return wish

    def nearest(self, cells: Sequence[OpenCell], wish: Mapping[str, Any]) -> list[OpenCell]:
        """Return open cells, first those that agree in more of the named axes, and of these the nearest ones."""

        def order(cell: OpenCell) -> tuple[int, float, float, tuple[int, int]]:
            axes = dict(cell.axes)
            differing = sum(axes.get(name) != wish[name] for name in self.named)
            return differing, math.dist(octaves(cell.cell), (wish[N], wish[B])), cell.price, cell.cell

        return sorted(cells, key=order)

    def chosen(self, cell: OpenCell, wish: Mapping[str, Any]) -> Configuration:
        """Return the configuration of an open cell, with the suggested learning rate where that is searched for."""
        axes = with_rate(cell.axes, wish[LEARNING_RATE]) if self.learning_rates else cell.axes
        return cell.configuration._replace(axes=axes)


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
    history = frozen_trials(view, chances, space)
    with _quiet():
        import optuna

        study = optuna.create_study(direction="maximize", sampler=_sampler(sampler, view))
        study.add_trials(history)
        # A low-discrepancy sequence is a function of the place in it, which a new study would begin again.
        turns = 1 + len(view.trials) % QMC_POINTS if sampler == "qmc" else 1
        for _ in range(turns):
            suggested = study.ask(space.box()).params
    wish = space.wish(suggested)
    nearest = [cell for cell in space.nearest(cells, wish) if space.chosen(cell, wish) not in tried]
    if not nearest:
        return None
    chosen = space.chosen(nearest[0], wish)
    predicted = sum(past.state.name == "COMPLETE" for past in history)
    return Propose(
        chosen.rollouts_per_prompt,
        chosen.prompts_per_batch,
        _why(chosen, nearest, wish, space, sampler, predicted),
        chosen.axes,
    )


def frozen_trials(view: View, chances: Chances, space: Space) -> list[FrozenTrial]:
    """Return the trials in the space as Optuna is told of them, the likeliest to be the best if they are too many.

    They are complete with the median of their predicted score, failed, or pending.
    """
    from optuna.trial import TrialState as State
    from optuna.trial import create_trial

    inside = [trial for trial in view.trials.values() if trial.configuration in space]
    # Those that have failed are at the end.
    best = {configuration: float(chances.best[place]) for configuration, place in chances.place.items()}
    inside = sorted(inside, key=lambda trial: -best.get(trial.configuration, -1.0))[:MOST_TRIALS]
    inside.sort(key=lambda trial: trial.trial)
    with_curve = [trial for trial in inside if has_curve(trial)]
    medians = np.median(scores_at_target(chances.joint, with_curve), axis=0)
    median = {trial.trial: float(value) for trial, value in zip(with_curve, medians, strict=True)}
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
    chosen: Configuration, nearest: list[OpenCell], wish: Mapping[str, Value], space: Space, sampler: str, count: int
) -> Why:
    cell, others = nearest[0], nearest[1 : 1 + MOST_ALTERNATIVES]
    return Why(
        f"{named_configuration(chosen)} is the open cell nearest to what {sampler.upper()} "
        f"suggests from {count} predicted scores; its shortest pilot takes {hours(cell.price)} GPU-hours",
        {"sampler": sampler, "told": count, "suggested": wish, "region": space.bounds(), "price_gpu_hours": cell.price},
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
