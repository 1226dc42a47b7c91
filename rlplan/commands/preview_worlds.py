"""A stored plan as it would be with other shares for the pilots, and the worlds that it may meet."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from pydantic import ValidationError

from budgets.errors import BudgetError, StoreError
from planner.axes import RECIPE, text_of
from planner.belief.pool import Pool
from planner.config import Config, Resolved, build_request
from planner.config.layers import DEFAULT
from planner.percent import percent
from planner.policy.champion import most_of_a_sweep
from planner.policy.grants import idle_gpu_hours
from planner.policy.policies import open_policy
from planner.price.open_facts import MEAN_RESPONSE
from planner.prior.laws import Circumstances, Run
from planner.prior.plan_prior import Priced, at_rate, of_its_own, prior_of_plan
from planner.prior.studies import STUDIES, Values
from planner.proposals import Candidate, Proposal, Request, propose
from planner.proposals.grid import PricedGrid, price_cells
from planner.proposals.pilots import validation_every
from planner.proposals.request import PricedCell
from planner.replay.game import PilotTerms
from planner.replay.play import open_chooser, play, play_whole
from planner.store import Store
from planner.store.schema import Plan
from planner.view import Configuration, PlanPrior
from rlplan.actions.calibration import CostSource, with_measured
from runner.simulation.drawn import APART, DrawnCell, DrawnWorld, Setting
from runner.sweep.plan_rows import pilot_gpus

PARTS: Final = (1 / APART**2, 1 / APART, 1.0)  # of a run, at which a drawn curve is read off the prior
LEAST_NAMED: Final = 0.01  # of the weight, from which a study is named


@dataclass(frozen=True)
class Split:
    """The plan with one share of its budget for the pilots."""

    proposal: Proposal

    @property
    def fraction(self) -> float:
        """The share."""
        return self.proposal.request.pilots.fraction or 0.0

    def pilots(self) -> dict[Configuration, PilotTerms]:
        """Return what each configuration is granted; one without a pilot may be proposed during the sweep."""
        fewest = min(row.pilot.steps for row in self.proposal.candidates if row.pilot.steps)
        return {row.cell.configuration: _pilot(row, fewest) for row in _candidates(self.proposal)}

    @cached_property
    def plan_prior(self) -> PlanPrior | None:
        """What a sweep of it is told to expect."""
        cells, priced = [candidate.cell for candidate in _candidates(self.proposal)], []
        for cell in cells:
            here = Circumstances.of(cell.variant.workload)
            run = Run.of(cell.key, cell.signal_fraction, cell.variant.traits, here)
            priced.append(Priced(cell.configuration, run, cell.cost.gpu_hours_per_step))
        return prior_of_plan(priced, self.proposal.final_gpu_hours)

    def idle_gpu_hours(self, workers: int) -> float:
        """Return what a sweep of so many workers sets aside for those that wait."""
        start_up = max(pilot.start_up_gpu_hours for pilot in self.pilots().values())
        return idle_gpu_hours(workers, start_up, self.proposal.request.pilot_hardware.gpus_per_trial)


def request_of(plan: Plan, store: Store, *, champion: bool) -> Request:
    """Return what a plan was made for, at the costs that are known by now; its pilots keep their GPUs."""
    sections = {name: plan.config[name] for name in Config.model_fields if name in plan.config}
    try:
        resolved = Resolved(Config.model_validate(sections), plan.config.get("sources", {}))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise StoreError(
            f"{plan.name} is damaged: its settings cannot be read ({place}: {first['msg']}). Go back to a copy of the "
            "database, or propose it again"
        ) from error
    request = build_request(resolved)
    # Nothing is drawn for further axes, so that those of the first variant stand for all.
    alone = replace(request.of(request.all_variants[0]), learning_rate_range=None)
    if not champion:
        alone = replace(alone, champion=None)
    if plan.pilot_gpu_hours:
        alone = alone.with_pilots(gpus=pilot_gpus(plan))
    return with_measured([CostSource(store)], alone, given_mean=resolved.source(MEAN_RESPONSE) != DEFAULT)


def splits_of(request: Request, fractions: Sequence[float]) -> tuple[list[Split], list[str]]:
    """Return the plan at each fraction that pays for a comparison, and why the others do not."""
    splits, refused = [], []
    for fraction in sorted(set(fractions)):
        try:
            splits.append(Split(propose(request.with_pilots(fraction=fraction))))
        except BudgetError as error:
            refused.append(f"a pilot fraction of {fraction:g} is left out: {error}")
    return splits, refused


def setting_of(request: Request, splits: Sequence[Split]) -> Setting:
    """Return what all worlds of the plan have in common: its prior, at the final run that the whole budget buys."""
    grid = PricedGrid(price_cells(request))
    bought = {cell.key: cell for cell in grid.ranked(request.budget_gpu_hours)}
    recipes = [None, *(recipe.name for recipe in request.other_recipes)]
    own_scores = [_scores(grid, bought, number if len(recipes) > 1 else None) for number in range(len(recipes))]
    neighbours = {
        each.cell.configuration: each.cell
        for split in splits
        for each in split.proposal.candidates
        if each.cell.variant.of_first_row
    }
    return Setting(
        cells=(
            *(_cell(cell, request, own_scores[0][key]) for key, cell in bought.items()),
            *(
                _neighbour(
                    cell,
                    _cell(bought[cell.key], request, own_scores[0][cell.key]),
                    own_scores[recipes.index(text_of(cell.variant.axes, RECIPE))][cell.key],
                )
                for cell in neighbours.values()
            ),
        ),
        weights=grid.prior.weights,
        study=grid.prior.study,
        answers=request.workload.validation.rollouts,
        longest_pilot=max(map(_longest_look, splits)),
        longest_final=request.budget_gpu_hours,
    )


def _longest_look(split: Split) -> float:
    """Return the GPU-hours of the final run up to which a trial's scores may be looked at."""
    if split.proposal.champion is not None:
        return most_of_a_sweep(split.proposal.champion.terms)
    return split.proposal.pilot_gpu_hours * max(map(_compared, _candidates(split.proposal)), default=1.0)


def _scores(
    grid: PricedGrid, bought: Mapping[tuple[int, int], PricedCell], number: int | None
) -> dict[tuple[int, int], Values]:
    """Return the scores of every cell in each draw of the prior, at three parts of its run, as a recipe has them."""
    steps = [bought[cell.key].allocation.update_steps if cell.key in bought else 1 for cell in grid.costs]
    along = np.stack([grid.after([max(1, int(part * count)) for count in steps]).scores for part in PARTS])
    scores = {cell.key: along[:, :, place] for place, cell in enumerate(grid.costs)}
    if number is None:
        return scores
    base = grid.costs[0].variant.workload.pass_rates.mean
    return {
        key: of_its_own(each.T, base, grid.prior.weights, number, np.array(PARTS)).T for key, each in scores.items()
    }


def assumptions_of(request: Request, setting: Setting, *, one_of_several: bool) -> Iterator[str]:
    """Say what the worlds take for granted; `one_of_several` when the plan has further axes, which they have not."""
    rates = setting.pathologies
    counted = np.bincount(setting.study, weights=setting.weights).tolist()
    weighed = zip(counted, (study.name for study in STUDIES), strict=True)
    named_studies = sorted((study for study in weighed if study[0] >= LEAST_NAMED), reverse=True)
    yield (
        "worlds are drawn from the prior by which the plan ranks, as widely as it is uncertain of it: "
        f"{', '.join(f'{study} {percent(weight)}' for weight, study in named_studies)}"
    )
    yield (
        f"of their curves {percent(rates.crossing)} of the cells' rise late and end higher, "
        f"{percent(rates.late_start)} start late, {percent(rates.second_rise)} rise twice, {percent(rates.slide)} "
        f"slide after a peak, and {percent(rates.collapse)} of the runs collapse"
    )
    if one_of_several:
        yield (
            f"of the plan's recipes, models and learning rates one is simulated: {request.traits.name} on "
            f"{request.workload.model.name}"
        )
    final = "goes on from its pilot" if request.continues_pilot else "starts anew, for it has other GPUs than its pilot"
    yield f"a cell is compared by its mean over seeds; the final run {final}"


def _candidates(proposal: Proposal) -> Iterator[Candidate]:
    """Return the candidates that the final run can afford."""
    return (row for row in proposal.candidates if row.cell.allocation.update_steps > 0)


def _pilot(candidate: Candidate, fewest_steps: int) -> PilotTerms:
    """Return what a sweep grants a trial of the candidate; as much as the shortest pilot where the plan has none."""
    granted, cost, most = candidate.pilot, candidate.cell.pilot_cost, candidate.cell.allocation.update_steps
    steps = granted.steps or min(fewest_steps, most)
    return PilotTerms(
        gpu_hours_per_step=cost.gpu_hours_per_step,
        start_up_gpu_hours=cost.start_up_gpu_hours,
        steps=steps,
        segment_steps=granted.segment_steps or max(1, steps // 4),
        most_steps=max(steps, most),
        planned=granted.steps > 0,
        compared_per_gpu_hour=_compared(candidate),
    )


def _compared(candidate: Candidate) -> float:
    """Return the GPU-hours that the final run takes for the updates of one GPU-hour of a pilot."""
    cell = candidate.cell
    return cell.cost.gpu_hours_per_step / cell.pilot_cost.gpu_hours_per_step


def _neighbour(cell: PricedCell, rule: DrawnCell, values: Values) -> DrawnCell:
    """Return a cell at another learning rate, or with another recipe, from the same one as the plan has it."""
    scores = at_rate(values.T, rule.base, cell.variant.learning_rate_factor, np.array(PARTS)).T
    cost = cell.cost
    return replace(
        rule,
        axes=cell.variant.axes,
        scores=scores,
        gpu_hours_per_step=cost.gpu_hours_per_step,
        start_up_gpu_hours=cost.start_up_gpu_hours,
    )


def _cell(cell: PricedCell, request: Request, scores: Values) -> DrawnCell:
    allocation, cost = cell.allocation, cell.cost
    return DrawnCell(
        allocation.rollouts_per_prompt,
        allocation.prompts_per_batch,
        cost.gpu_hours_per_step,
        cost.start_up_gpu_hours,
        validation_every(cell, request.workload.validation),
        allocation.update_steps,
        request.workload.pass_rates.mean,
        scores,
    )


@dataclass(frozen=True, slots=True)
class PlayedWorld:
    """One world at one pilot fraction."""

    score: float  # of the chosen one, at what its final run has
    best: float  # of all candidates, there
    gpu_hours_spent: float
    wall_hours: float

    @property
    def regret(self) -> float:
        """How far the choice falls short."""
        return self.best - self.score


@dataclass(frozen=True, slots=True)
class UnpilotedWorld:
    """One world in which the whole budget goes into a final run, and no pilot says which."""

    first_ranked: float
    random: float
    best: float

    @property
    def played(self) -> PlayedWorld:
        """The world as row 1 leaves it, which is run then."""
        return PlayedWorld(self.first_ranked, self.best, 0.0, 0.0)


def champion_outcome(
    in_time: Callable[[float], None], world: DrawnWorld, split: Split, seed: int, workers: int
) -> PlayedWorld:
    """Play the whole money: the champion, its challengers, and the run that goes on; TimeoutError once it is late."""
    proposal = split.proposal
    assert proposal.champion is not None, "only a champion's plan is played so"
    played = play_whole(
        world.recorded,
        proposal.champion.terms,
        seed=seed,
        workers=workers,
        pilots=split.pilots(),
        truth=world.truth,
        progress=in_time,
    )
    return PlayedWorld(
        score=played.reached,
        best=played.best_known,
        gpu_hours_spent=played.challenger_gpu_hours,
        wall_hours=played.challenger_gpu_hours / proposal.request.pilot_hardware.gpus_per_trial,
    )


def pilots_outcome(
    policy: str, in_time: Callable[[float], None], world: DrawnWorld, split: Split, seed: int, workers: int
) -> PlayedWorld:
    """Play the pilots and the final run; TimeoutError once it is late."""
    pool, proposal = Pool(), split.proposal
    played = play(
        world.recorded,
        open_policy(policy, search=None, pool=pool),
        budget=proposal.pilot_gpu_hours,
        target=proposal.final_gpu_hours,
        seed=seed,
        workers=workers,
        chooser=open_chooser(policy, pool),
        trace=False,
        progress=in_time,
        pilots=split.pilots(),
        idle_gpu_hours=split.idle_gpu_hours(workers),
        plan_prior=split.plan_prior,
        rest_to_final=True,
        continues_pilot=proposal.request.continues_pilot,
    )
    truth = world.truth(played.final_gpu_hours)
    return PlayedWorld(
        score=truth[played.chosen],
        best=max(truth.values()),
        gpu_hours_spent=played.gpu_hours_spent,
        wall_hours=played.wall_hours / proposal.request.pilot_hardware.gpus_per_trial,
    )
