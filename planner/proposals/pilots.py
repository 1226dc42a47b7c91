"""Which cells deserve a pilot, how long each is, and why the others are left out.

The first row always has one, which costs nothing if that row is chosen: its run goes on. Next it is tried at other
learning rates: in public sweeps these move the end by more than n and B do. A further pilot is worth its GPU-hours
where a curve would tell cells apart: another favourite of the prior, then the cell farthest from all chosen ones for
its price, while the pilot budget pays for the least that a pilot must be.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter

import numpy as np

from budgets.workload import Validation
from planner.axes import CATEGORICAL, format_axes, value_or_neutral, values_by_axis
from planner.percent import percent
from planner.prior.draws import BEATEN, Weights, chances_ahead, noise_between
from planner.proposals.request import PilotGrant, PricedCell
from planner.rules import PilotRules
from planner.view import Axes, Configuration

APART = 2.0  # octaves that two values of a categorical axis count for
UNCHOSEN_OCTAVES = 16.0  # octaves to a slice of which nothing is chosen yet: farther than any grid reaches


def octaves(a: Configuration, b: Configuration) -> float:
    """Return the distance in (log2 n, log2 B) and the further axes."""
    return math.sqrt(
        math.log2(a.rollouts_per_prompt / b.rollouts_per_prompt) ** 2
        + math.log2(a.prompts_per_batch / b.prompts_per_batch) ** 2
        + sum(
            _along(name, value_or_neutral(a.axes, name), value_or_neutral(b.axes, name)) ** 2
            for name in {name for name, _ in (*a.axes, *b.axes)}
        )
    )


class Spread:
    """The distances of configurations to those that were chosen so far, which are added one by one."""

    def __init__(self, configurations: Sequence[Configuration]) -> None:
        """Begin with nothing chosen."""
        values = values_by_axis(configuration.axes for configuration in configurations)
        self._sliced = [name for name in CATEGORICAL if len(values.get(name, ())) > 1]
        self._nearest = dict.fromkeys(configurations, math.inf)
        self._in_slice = {name: dict.fromkeys(configurations, UNCHOSEN_OCTAVES) for name in self._sliced}

    def add(self, chosen: Configuration) -> None:
        """Count one more as chosen."""
        for nearest in self._nearest:
            distance = octaves(nearest, chosen)
            self._nearest[nearest] = min(self._nearest[nearest], distance)
            for name in self._sliced:
                if dict(nearest.axes)[name] == dict(chosen.axes)[name]:
                    self._in_slice[name][nearest] = min(self._in_slice[name][nearest], distance)

    def nearest(self, configuration: Configuration) -> float:
        """Return the distance to the nearest chosen one, infinite while there is none."""
        return self._nearest[configuration]

    def unseen(self, configuration: Configuration) -> int:
        """Return on how many categorical axes nothing with its value was chosen yet."""
        return sum(distances[configuration] == UNCHOSEN_OCTAVES for distances in self._in_slice.values())

    def gap(self, configuration: Configuration) -> float:
        """Return how much room there is around a configuration, among all and among those of its values."""
        product = self._nearest[configuration]
        for name in self._sliced:
            product *= self._in_slice[name][configuration]
        return float(product ** (1 / (1 + len(self._sliced))))


def _along(name: str, value: str | float | None, other: str | float | None) -> float:
    if value == other:
        return 0.0
    if name in CATEGORICAL or value is None or other is None:
        return APART
    return abs(math.log2(float(value) / float(other)))


LEAST_SIGNAL = 0.05
FEWEST_FINAL_UPDATES = 20
FAVOURITES = 2  # pilots that go to the top of the ranking; the rest fill the space
FAVOURITES_APART = 2.0  # octaves, so that both favourites are not the same guess
PILOTS_APART = 1.4  # octaves: only diagonal neighbours both get a pilot; longer ones tell more than more of them
COST_TIE = 1.01  # costs this near are the same: at equal n·B cells differ only in prompts to read
SEGMENTS_PER_PILOT = 4


Chosen = dict[Configuration, PricedCell]


def grant_pilots(
    ranked: Sequence[PricedCell], weights: Weights, pilot_gpu_hours: float, rules: PilotRules, validation: Validation
) -> dict[Configuration, PilotGrant]:
    """Return a grant for every cell: steps and GPU-hours for the chosen ones, and the reason for all.

    `weights` are those of the prior's draws.
    """
    if not pilot_gpu_hours:
        return {cell.configuration: PilotGrant(0, 0.0, 0, "left out: the plan has no pilots") for cell in ranked}
    reasons = {cell.configuration: _unfit(cell, ranked, weights, pilot_gpu_hours, rules) for cell in ranked}
    eligible = [cell for cell in ranked if reasons[cell.configuration] is None]
    chosen = _choose(eligible, pilot_gpu_hours, rules)
    favourites = [name for name, cell in chosen.items() if not cell.variant.of_first_row][:FAVOURITES]
    steps = _share_out(list(chosen.values()), pilot_gpu_hours, rules, validation)
    grants = {}
    for cell in ranked:
        name = cell.configuration
        if name in chosen:
            granted = steps[name]
            reason = "favourite of the ranking" if name in favourites else "fills a gap of the grid"
            if cell.variant.of_first_row:
                reason = f"the first row's n and B, {format_axes(cell.variant.axes)}"
            every, quarter = validation_every(cell, validation), math.ceil(granted / SEGMENTS_PER_PILOT)
            segment = min(granted, every * math.ceil(quarter / every))  # whole validations
            grants[name] = PilotGrant(granted, cell.pilot_cost.gpu_hours(granted), segment, reason)
        else:
            grants[name] = PilotGrant(0, 0.0, 0, f"left out: {reasons[name] or _coverage(cell, chosen)}")
    return grants


def carries_signal(signal_fraction: float) -> bool:
    """Say whether enough groups have differing rewards for a run to learn from."""
    return signal_fraction >= LEAST_SIGNAL


def least_pilot_hours(cell: PricedCell, rules: PilotRules) -> float:
    """Return the GPU-hours of the shortest pilot that is worth starting."""
    return cell.pilot_cost.gpu_hours(rules.fewest_steps)


def _unfit(
    cell: PricedCell, ranked: Sequence[PricedCell], weights: Weights, pilot_gpu_hours: float, rules: PilotRules
) -> str | None:
    if (reason := useless(cell)) is not None:
        return reason
    first = least_pilot_hours(ranked[0], rules)
    comparison = " beside the first row's" if cell is not ranked[0] and first <= pilot_gpu_hours else ""
    if (least := least_pilot_hours(cell, rules)) > pilot_gpu_hours - (first if comparison else 0.0):
        return f"{rules.fewest_steps} steps would take {least:,.6g} of the {pilot_gpu_hours:,.6g} GPU-hours{comparison}"
    return None if rules.cells == "all" else dominating_text(cell, ranked, weights)


def useless(cell: PricedCell) -> str | None:
    """Say why the final run could not be of a cell; None where it could."""
    updates = cell.affordable_steps
    if updates < FEWEST_FINAL_UPDATES:
        return f"the final budget buys only {updates} updates"
    if not carries_signal(cell.signal_fraction):
        return f"only {percent(cell.signal_fraction, 1)} of its groups carry signal"
    return None


def dominating_text(cell: PricedCell, ranked: Sequence[PricedCell], weights: Weights) -> str | None:
    """Say which cell is almost certainly no worse in anything; None where none is."""
    dominating = _dominating(cell, ranked, weights)
    if dominating is None:
        return None
    n, B = dominating.key
    return f"n = {n}, B = {B} costs no more, carries as much signal and promises more"


def _dominating(cell: PricedCell, ranked: Sequence[PricedCell], weights: Weights) -> PricedCell | None:
    """Return the first that costs no more, carries no less signal and does better almost certainly.

    Only within a variant: of recipes and models the prior knows nothing, and to compare them is what pilots are for.
    """
    noise = noise_between(cell.variant.workload.pass_rates.mean)
    better = [
        other
        for other in ranked
        if other.variant is cell.variant
        # What is nearer than two runs of a cell never dominates (quick).
        and other.expected - cell.expected > noise
        and other.signal_fraction >= cell.signal_fraction
        and other.cost.gpu_hours_per_step <= COST_TIE * cell.cost.gpu_hours_per_step
    ]
    if not better:
        return None
    ahead = 1 - chances_ahead(np.stack([other.scores for other in better], axis=1), cell.scores, weights, noise)
    return next((other for other, chance in zip(better, ahead.tolist(), strict=True) if chance < BEATEN), None)


def _choose(eligible: Sequence[PricedCell], pilot_gpu_hours: float, rules: PilotRules) -> Chosen:
    """Take the first row and its other rates, another favourite, then cells far from all, while their pilots fit."""
    if rules.cells == "all":  # as many of the first as have room for their least pilot
        sums = accumulate(least_pilot_hours(cell, rules) for cell in eligible)
        affordable = [cell for cell, needed in zip(eligible, sums, strict=True) if needed <= pilot_gpu_hours]
        return {cell.configuration: cell for cell in affordable}
    rows = [cell for cell in eligible if not cell.variant.of_first_row]
    chosen: Chosen = {}
    money = pilot_gpu_hours
    spread, price = Spread([cell.configuration for cell in rows]), _relative_prices(rows, rules)
    while len(chosen) < rules.most_pilots:
        favourite = sum(not cell.variant.of_first_row for cell in chosen.values()) < FAVOURITES
        spacing = FAVOURITES_APART if favourite else PILOTS_APART
        affordable = [cell for cell in rows if least_pilot_hours(cell, rules) <= money]
        apart = [cell for cell in affordable if spread.nearest(cell.configuration) >= spacing]
        if not apart and len(chosen) == 1:  # one pilot compares nothing: better two neighbours than one cell
            apart = [cell for cell in affordable if cell.configuration not in chosen]
        if not apart:
            break
        # What is far for its price, so that a dear corner does not go first.
        far = (spread.gap(cell.configuration) / math.sqrt(price[cell.configuration]) for cell in apart)
        pick = (
            max(apart, key=lambda cell: spread.unseen(cell.configuration))  # of as many, the first of the ranking
            if favourite
            else max(zip(far, apart, strict=True), key=itemgetter(0))[1]
        )
        spread.add(pick.configuration)
        others = [cell for cell in eligible if cell.variant.of_first_row and cell.key == pick.key]
        for cell in (pick, *(() if chosen else others)):
            if len(chosen) < rules.most_pilots and (hours := least_pilot_hours(cell, rules)) <= money:
                chosen[cell.configuration] = cell
                money -= hours
    return chosen


def _relative_prices(cells: Sequence[PricedCell], rules: PilotRules) -> dict[Configuration, float]:
    """Return what each cell's least pilot costs as if all variants cost alike: else the dear ones would have few.

    On the final run's GPUs, where it is compared: on fewer the small cells would be so cheap that only they had pilots.
    """
    hours = {cell.configuration: cell.cost.gpu_hours(rules.fewest_steps) for cell in cells}
    cheapest: dict[Axes, float] = {}
    for configuration, price in hours.items():
        cheapest[configuration.axes] = min(price, cheapest.get(configuration.axes, price))
    least = min(cheapest.values(), default=1.0)
    return {priced: price * (least / cheapest[priced.axes]) for priced, price in hours.items()}


def _share_out(
    chosen: Sequence[PricedCell], pilot_gpu_hours: float, rules: PilotRules, validation: Validation
) -> dict[Configuration, int]:
    """Give every chosen cell its least pilot, and the rest of the GPU-hours in equal parts.

    Equal GPU-hours make the curves comparable at the same compute. A pilot never needs to be longer than its final
    run. Steps are cut to whole validations where that leaves enough of them: a step that is never scored tells nothing.
    """
    if not chosen:
        return {}
    money = pilot_gpu_hours - sum(least_pilot_hours(cell, rules) for cell in chosen)
    steps = {}
    for cell in chosen:
        extra = int(money / len(chosen) / cell.pilot_cost.gpu_hours_per_step)
        total = min(rules.fewest_steps + extra, max(rules.fewest_steps, cell.allocation.update_steps))
        whole = total - total % validation_every(cell, validation)
        steps[cell.configuration] = whole if whole >= rules.fewest_steps else total
    return steps


def validation_every(cell: PricedCell, validation: Validation) -> int:
    """Return the steps from one score of a cell to the next."""
    return validation.steps_between(cell.allocation.rollouts_per_step, cell.variant.traits.updates_per_batch)


def _coverage(cell: PricedCell, chosen: Chosen) -> str:
    if not chosen:
        return "the pilot budget pays for no pilot"
    n, B, axes = min(chosen, key=lambda other: octaves(cell.configuration, other))
    return f"its neighbour n = {n}, B = {B}{f', {format_axes(axes)},' if axes else ''} has a pilot"
