"""Which challenger to look at next, by the expected value of looking: what a switch gains where its bar is reached."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from planner.axes import MODEL, text_of
from planner.policy.champion import MOST_LOOK_SHARE, most_of_challengers, rate_octaves, same_but_rate
from planner.policy.gains import Gain, Standing
from planner.rules import LOOK_SHARE
from planner.view import Configuration, OpenCell, TrialView, has_curve

NORMAL = NormalDist()
# P(a switch gains) from which it is made, also after an alarm: at .65 usual champions lost .004. A lower rate where the
# start is dead needs less.
BAR, DEAD_BAR = 0.8, 0.65
# Where the champion is far from what studies advise, or its rate is off the rule's, a gain need only be expected.
FAR_BAR = 0.5
# Of score. What looks are expected to bring is more than they did bring: those that were expected to bring less cost
# more than they brought (`bench.evidence`, each family played by what the others choose).
LEAST_VALUE = 0.005
LEAST_LOOK = 0.5  # of a look's length: what start-ups and the cap leave of one may be no less
COARSE = 0.5  # of a look: scores that lie farther apart are not where looks should end
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Look:
    """A challenger that could be trained up to a step; one without a trial is still to be proposed."""

    configuration: Configuration
    trial: TrialView | None
    step: int
    price: float
    value: float


def bar_of(standing: Standing, challenger: Configuration) -> float:
    """Return the probability from which a challenger takes the champion's place."""
    if standing.usual is not None or toward_rule(standing, challenger):
        return FAR_BAR
    return DEAD_BAR if standing.is_dead and below_rate(standing, challenger) else BAR


def below_rate(standing: Standing, challenger: Configuration) -> bool:
    """Say whether a challenger has the champion's other settings and a lower learning rate."""
    champion, other = rate_octaves(standing.champion.axes), rate_octaves(challenger.axes)
    is_lower = champion is not None and other is not None and other < champion
    return is_lower and same_but_rate(standing.champion, challenger)


def toward_rule(standing: Standing, challenger: Configuration) -> bool:
    """Say whether a challenger has the champion's other settings and a learning rate nearer to the rule's."""
    champion, other = rate_octaves(standing.champion.axes), rate_octaves(challenger.axes)
    return (
        champion is not None
        and other is not None
        and abs(other) < abs(champion)
        and same_but_rate(standing.champion, challenger)
    )


def cap_of(standing: Standing) -> float:
    """Return the GPU-hours that challengers may take in all."""
    terms = standing.terms
    if standing.alarm or terms.alone:
        return most_of_challengers(terms)
    return terms.challenger_share * terms.total_gpu_hours


def next_look(standing: Standing) -> Look | None:
    """Return the look that is worth most, or None where none is worth what it takes; what mends a fault comes first."""
    money = (1 + ROUNDING) * cap_of(standing) - standing.challenger_gpu_hours + slack_of(standing)
    gains = [standing.gain(trial) for trial in standing.challengers]
    fresh = {look.configuration: look for look in first_looks(standing, gains, money)}
    for configuration in faults_of(standing):
        if configuration in fresh:
            return fresh[configuration]
    longer = [look for look in longer_looks(standing, gains) if look.price <= money]
    worth = [look for look in (*fresh.values(), *longer) if look.value > LEAST_VALUE]
    return max(worth, key=lambda look: look.value, default=None)


def slack_of(standing: Standing) -> float:
    """Return by how much a cap is rounded: half a segment where one is more than half a look, as in recorded tables."""
    segment = standing.trial.segment_steps * standing.trial.gpu_hours_per_step
    return segment / 2 if segment > COARSE * LOOK_SHARE * standing.total else 0.0


def faults_of(standing: Standing) -> dict[Configuration, str]:
    """Return what may mend a fault of the champion itself, and why, the first first: its learning rate, its sizes."""
    faults: dict[Configuration, str] = {}
    rate = rate_octaves(standing.champion.axes)
    others = [choice for choice in possible(standing) if same_but_rate(standing.champion, choice)]
    rates = {octaves: choice for choice in others if (octaves := rate_octaves(choice.axes)) is not None}
    if rate is not None:
        nearer = [octaves for octaves in rates if abs(octaves) < abs(rate) and octaves * rate >= 0]
        lower = [octaves for octaves in rates if octaves < rate]
        if nearer and (rate < 0 or standing.alarm):
            faults[rates[min(nearer, key=abs)]] = "its learning rate is nearer to the rule's"
        elif standing.alarm and standing.is_dead and lower:
            faults[rates[max(lower)]] = "a lower learning rate may mend a dead start"
    if standing.usual is not None:
        faults[standing.usual] = "the usual sizes are far from the champion's"
    return faults


def possible(standing: Standing) -> list[Configuration]:
    """Return what can be looked at first: ready trials without a score of their own, and open cells."""
    fresh = [trial.configuration for trial in standing.view.trials.values() if trial.ready and not has_curve(trial)]
    return list(dict.fromkeys([*fresh, *standing.view.open_cells]))


def first_looks(standing: Standing, gains: Sequence[Gain], money: float) -> Iterator[Look]:
    """Yield a look at each configuration that has no score yet, as long as GPU-hours are left for one."""
    begun = {gain.trial.configuration for gain in gains} | {standing.champion}
    trials = {trial.configuration: trial for trial in standing.view.trials.values() if trial.ready}
    best = best_so_far(standing, gains)
    to_gpu_hours, faults = LOOK_SHARE * standing.total, faults_of(standing)
    for configuration in possible(standing):
        if configuration in begun or not comparable(standing, configuration):
            continue
        trial, cell = trials.get(configuration), standing.view.open_cells.get(configuration)
        priced = trial or cell
        assert priced is not None, "what is possible has a trial or an open cell"
        step = step_for(priced, to_gpu_hours, money)
        if step * priced.compared_per_step < LEAST_LOOK * to_gpu_hours:
            # Of what mends a fault a single score is worth having where there is none, up to what an alarm allows.
            step = first_scored(standing, priced)
            if gains or configuration not in faults or not is_payable(standing, priced):
                continue
        price = price_of(priced, step)
        mean, sd = standing.untried(configuration)
        explained = standing.calibration.explained(LOOK_SHARE)
        value = value_of_look(mean, sd, explained, bar_of(standing, configuration), best)
        yield Look(configuration, trial, step, price, value - cost_of(standing, price))


def first_scored(standing: Standing, priced: TrialView | OpenCell) -> int:
    """Return the step of the next score; until a cell has a trial, scores lie as far apart as the champion's."""
    if isinstance(priced, OpenCell):
        return standing.trial.segment_steps
    return min(priced.most_steps, (priced.step // priced.segment_steps + 1) * priced.segment_steps)


def price_of(priced: TrialView | OpenCell, step: int) -> float:
    """Return the GPU-hours of a look up to a step, its start-up among them."""
    if isinstance(priced, OpenCell):
        return priced.start_up_gpu_hours + step * priced.gpu_hours_per_step
    return priced.price(step)


def is_payable(standing: Standing, priced: TrialView | OpenCell) -> bool:
    """Say whether challengers may still take what the next score of one costs, an alarm provided."""
    money = (1 + ROUNDING) * most_of_challengers(standing.terms) - standing.challenger_gpu_hours
    return price_of(priced, first_scored(standing, priced)) <= money


def unseen(standing: Standing) -> list[TrialView]:
    """Return, where no challenger has a score, trials that may mend a fault and cannot be paid to one any more.

    Of those that were never begun, the ones with a learning rate nearer to the rule's.
    """
    faults = {} if standing.challengers or standing.terms.alone else faults_of(standing)
    trials = [trial for trial in standing.view.trials.values() if trial.configuration in faults and trial.ready]
    begun = [trial for trial in trials if trial.gpu_hours_spent or toward_rule(standing, trial.configuration)]
    return [trial for trial in begun if not is_payable(standing, trial)]


def longer_looks(standing: Standing, gains: Sequence[Gain]) -> Iterator[Look]:
    """Yield for each challenger a look twice as far, the champion beside it."""
    for gain in gains:
        trial = gain.trial
        reached = trial.scores[-1].gpu_hours
        to_gpu_hours = 2 * reached
        if not trial.ready or to_gpu_hours > (1 + ROUNDING) * MOST_LOOK_SHARE * standing.total:
            continue
        step = step_at(trial, to_gpu_hours)
        price = trial.price(step)
        now = standing.calibration.explained(reached / standing.total)
        then = standing.calibration.explained(to_gpu_hours / standing.total)
        explained = max(0.0, then - now) / max(1 - now, 1e-9)
        others = best_so_far(standing, [other for other in gains if other is not gain])
        bar = bar_of(standing, trial.configuration)
        value = value_of_look(gain.mean, gain.sd, explained, bar, others) + others - best_so_far(standing, gains)
        yield Look(trial.configuration, trial, step, price, value - cost_of(standing, price))


def comparable(standing: Standing, configuration: Configuration) -> bool:
    """Say whether an early lead tells anything: one of a higher rate than the champion's and the rule's does not."""
    champion, other = rate_octaves(standing.champion.axes), rate_octaves(configuration.axes)
    if champion is not None and other is not None and other > max(champion, 0.0):
        return False
    return text_of(configuration.axes, MODEL) == text_of(standing.champion.axes, MODEL)


def best_so_far(standing: Standing, gains: Sequence[Gain]) -> float:
    """Return what the best switch gains that could be made now; 0 is going on."""
    return max([0.0, *(gain.mean for gain in gains if gain.probability >= bar_of(standing, gain.trial.configuration))])


def cost_of(standing: Standing, price: float) -> float:
    """Return what GPU-hours for a challenger cost the champion's end, by the slope that it has."""
    remaining = max(0.1 * standing.total, standing.total - price)
    return standing.rise * math.log(standing.total / remaining)


def value_of_look(mean: float, sd: float, explained: float, bar: float, best: float) -> float:
    """Return E[(m − best)⁺ where the bar is reached], m the mean after a look that explains this share of sd².

    The mean after the look is normal with sd √explained; the bar is reached where it is so many of the standard
    deviations that remain, sd √(1 − explained), above 0.
    """
    moved, remaining = sd * math.sqrt(explained), sd * math.sqrt(1 - explained)
    threshold = max(best, NORMAL.inv_cdf(bar) * remaining)
    z = (threshold - mean) / max(moved, 1e-9)
    if abs(z) > 30:
        return max(0.0, mean - best) if z < 0 else 0.0
    return moved * NORMAL.pdf(z) + (mean - best) * NORMAL.cdf(-z)


def step_at(trial: TrialView, gpu_hours: float) -> int:
    """Return the end of the segment, nearest to so many GPU-hours of training, at which a look can be had."""
    segments = max(1, round(gpu_hours / trial.compared_per_step / trial.segment_steps))
    return min(trial.most_steps, segments * trial.segment_steps)


def step_for(priced: TrialView | OpenCell, gpu_hours: float, money: float) -> int:
    """Return the step of a first look that goes nearly so far, and takes no more with its start-up than is left."""
    paid = (money - priced.start_up_gpu_hours) / priced.gpu_hours_per_step
    if isinstance(priced, OpenCell):
        return max(0, math.floor(min(gpu_hours / priced.compared_per_step, paid) + ROUNDING))
    segments = math.floor((priced.step + paid) / priced.segment_steps + ROUNDING)
    return min(step_at(priced, gpu_hours), max(0, segments) * priced.segment_steps)
