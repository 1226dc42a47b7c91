"""A champion's plan: its own first look, and which rows are named to challenge it.

Its run is the beginning of the final run, so that its look costs nothing. Challengers are trained as far, on the same
GPUs: first the values that the user compares, then the usual sizes where the champion's are far from them, then the
rows that the prior puts ahead of it most.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Final

from budgets.errors import InputError
from planner.axes import LEARNING_RATE, format_axes, without
from planner.prior.draws import Weights
from planner.proposals.grid import gaps_to, legal_cells
from planner.proposals.pilots import SEGMENTS_PER_PILOT, dominating_text, octaves, useless, validation_every
from planner.proposals.request import PilotGrant, PricedCell, Request
from planner.rules import FAR_OCTAVES, LOOK_SHARE, USUAL
from planner.view import Configuration

RATES: Final = (1.0, 1 / 3, 3.0)  # times the champion's own: rows for a run that is dead, or slow
SHORTEST_LOOK: Final = 0.02  # of all GPU-hours, where many values are compared: base models differ from here on
LEAST_CHANCE: Final = 0.25  # of ending above the champion, by the prior, that is worth a look


def with_champion(request: Request) -> Request:
    """Return the request with the champion's n and B decided: its own, or the cell of the grid nearest to the usual."""
    champion = request.champion
    if champion is None:
        return request
    if champion.given and (most := request.workload.prompt_set_size) < champion.sizes[1]:
        raise InputError(
            f"{{champion}}: a batch of {champion.sizes[1]:,} prompts, from a set of {most:,}: give a smaller B, or set "
            "workload.prompt_set_size if there are more prompts",
            champion="n={},B={}".format(*champion.sizes),
        )
    if not champion.given:
        usual, cells = Configuration(*champion.sizes), legal_cells(replace(request, champion=None))
        nearest = min(cells, key=lambda cell: octaves(Configuration(*cell), usual))
        champion = replace(champion, sizes=nearest)
    own = champion.rate_factor
    rates = dict.fromkeys(float(f"{own * factor:.3g}") if factor != 1 else own for factor in RATES)
    others = () if request.all_variants[0].axes else tuple(rate for rate in rates if rate != 1)
    return replace(request, champion=champion, other_rates=others, other_recipes=())


def usual_rows(ranked: Iterable[PricedCell], request: Request) -> list[Configuration]:
    """Return the usual choice of each candidate's model and recipe: the row nearest to what recipes have.

    It has the rule's learning rate.
    """
    names = [cell.configuration for cell in ranked]
    of_rule = request.champion is not None and request.champion.rate_factor != 1
    usual = [
        Configuration(*USUAL[0], without(candidate.axes, LEARNING_RATE) if of_rule else candidate.axes)
        for candidate in request.candidates
    ]
    return [
        min((name for name in names if name.axes == choice.axes), key=lambda name: octaves(name, choice))
        for choice in usual
    ]


def grant_looks(
    ranked: Sequence[PricedCell], weights: Weights, gpu_hours: float, request: Request
) -> dict[Configuration, PilotGrant]:
    """Return a grant for every row: the champion's own look, what looks at challengers cost, and the reason for all.

    `gpu_hours` are the challengers' in all, and `weights` those of the prior's draws.
    """
    rows = {cell.configuration: cell for cell in ranked}
    unfit = {cell.configuration: useless(cell) or dominating_text(cell, ranked, weights) for cell in ranked}
    rest = "the share of the challengers is spent" if gpu_hours else "the champion runs alone"
    grants = {name: PilotGrant(0, 0.0, 0, f"left out: {reason or rest}") for name, reason in unfit.items()}
    if (champion := rows.get(request.candidates[0])) is None:  # the GPU-hours buy no step of it
        return grants
    look = LOOK_SHARE * request.budget_gpu_hours
    grant_of_champion = _look(champion, look, request, "the champion: it is its own pilot")
    grants[champion.configuration] = replace(grant_of_champion, gpu_hours=0.0)
    fit = [cell for cell in ranked if unfit[cell.configuration] is None and not cell.variant.of_first_row]
    race = SHORTEST_LOOK * request.budget_gpu_hours
    share = gpu_hours / max(1, len(request.all_variants) - len(request.candidates))  # all that are compared get a look
    look, money = min(look, max(share, race)), gpu_hours
    for cell, reason in _in_turn(rows, fit, weights, request) if gpu_hours else ():
        grant = _look(cell, race if cell.configuration in request.candidates else look, request, reason)
        if grant.gpu_hours > money:
            break
        if grant.steps >= validation_every(cell, request.workload.validation):  # else there is no score of it
            grants[cell.configuration] = grant
            money -= grant.gpu_hours
    return grants


def _look(cell: PricedCell, gpu_hours: float, request: Request, reason: str) -> PilotGrant:
    """Return a look of so many GPU-hours at most, of whole validations where it has one."""
    every, most = validation_every(cell, request.workload.validation), cell.allocation.update_steps
    steps = min(most, max(1, cell.pilot_cost.steps_for(gpu_hours)))
    steps = steps - steps % every or steps
    segment = min(steps, every * math.ceil(math.ceil(steps / SEGMENTS_PER_PILOT) / every))
    return PilotGrant(steps, cell.pilot_cost.gpu_hours(steps), segment, reason)


def _in_turn(
    rows: Mapping[Configuration, PricedCell], fit: Sequence[PricedCell], weights: Weights, request: Request
) -> Iterator[tuple[PricedCell, str]]:
    """Yield challengers in the order in which they are looked at, each with the reason; `fit` are worth a look."""
    champion = rows[request.candidates[0]]
    compared = [Configuration(*champion.key, variant.axes) for variant in request.variants]
    if len(request.candidates) == 1 and not compared and champion.variant.of_first_row:
        compared = [champion.configuration._replace(axes=())]  # at the rule's learning rate
    reasons = {
        configuration: f"compared: {format_axes(configuration.axes) or 'the usual learning rate'}"
        for configuration in compared
        if configuration != champion.configuration
    }
    usual = usual_rows(rows.values(), request)[0]
    (gap,) = gaps_to([rows[usual]], champion, weights)
    if usual != champion.configuration and (gap.clear or octaves(usual, champion.configuration) > FAR_OCTAVES):
        of_usual = {usual: "the usual n and B"}
        reasons = {**reasons, **of_usual} if request.variants else {**of_usual, **reasons}
    yield from ((rows[configuration], reason) for configuration, reason in reasons.items() if configuration in rows)
    others = [cell for cell in fit if cell.configuration not in reasons and cell is not champion]
    gaps = zip(gaps_to(others, champion, weights) if others else (), others, strict=True)
    likely = [(gap.median, cell) for gap, cell in gaps if gap.chance >= LEAST_CHANCE]
    likely.sort(key=itemgetter(0), reverse=True)
    yield from ((cell, "the studies put it ahead most") for _, cell in likely)
