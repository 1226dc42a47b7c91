"""What the steps of adopted runs took beside their prices, before and after these learnt of them, and what is odd."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from budgets.calibration import OUTSIDE, MeasuredStep, latest_mean, priced_phases, priced_whole
from budgets.coefficient_fit import NOISE_PRIOR_SD
from budgets.coefficients import Coefficients
from budgets.cost import Z90
from budgets.work import Phase, Seconds, total
from planner.proposals import Request
from planner.store.schema import CostRecord
from rlplan.actions.calibrating import measured_steps
from rlplan.wording.numbers import aligned_hours

PHASE_LOG_SD = 4 * NOISE_PRIOR_SD  # trainers cut phases each in their own way
LEAST_ODD = 2.0  # times a price, or a part of one so small, that is told
UNACCOUNTED = 0.10  # of a step, from which on seconds of no phase are told
WHOLE = "whole step"
NAMES = {
    Phase.GENERATE: "generation",
    Phase.REWARD: "scoring",
    Phase.OLD_LOG_PROBS: "the old policy's log-probabilities",
    Phase.REFERENCE: "the reference's log-probabilities",
    Phase.TRAIN: "the update",
    Phase.SYNC: "weight sync",
    Phase.EVALUATE: "a validation",
    Phase.SAVE: "a save",
}
Phases = tuple[Phase, ...]


@dataclass(frozen=True, slots=True)
class PhaseRatio:
    """A phase of adopted runs: its seconds in a step, and predicted ÷ measured before and after prices learnt."""

    phase: str
    measured_seconds: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class _Timed:
    """Seconds that a step took for something, and what that was priced at by driver, before and after."""

    what: Phases  # none: the whole step
    took: float
    before: Seconds
    after: Seconds


def ratios(
    records: Sequence[CostRecord], request: Request, before: Coefficients, after: Coefficients
) -> list[PhaseRatio]:
    """Compare the prices of adopted steps with what they took, by phase, the whole step last."""
    timed: dict[Phases, list[_Timed]] = {}
    for step, updates in _steps(records, request):
        for each in _timed(step, updates, request, before, after):
            timed.setdefault(each.what, []).append(each)
    order = sorted(timed, key=lambda what: (not what, [list(Phase).index(phase) for phase in what]))
    return [
        PhaseRatio(
            phase=" + ".join(what) or WHOLE,
            measured_seconds=fmean(each.took for each in timed[what]),
            before=_ratio((total(each.before), each.took) for each in timed[what]),
            after=_ratio((total(each.after), each.took) for each in timed[what]),
        )
        for what in order
    ]


def oddities(records: Sequence[CostRecord], request: Request, before: Coefficients) -> list[str]:
    """Say what of a run is odd: phases far from their price, responses that grow, seconds of no phase."""
    timed: dict[Phases, list[_Timed]] = {}
    for step, updates in _steps(records, request):
        for each in _timed(step, updates, request, before, before):
            timed.setdefault(each.what, []).append(each)
    known = replace(before, length_log_sd=0.0)  # the lengths were measured
    found = [said for what, each in timed.items() if what and (said := _far(what, each, known))]
    return [*found, *_drifting(records), *_unaccounted(records)]


def _steps(records: Sequence[CostRecord], request: Request) -> Iterator[tuple[MeasuredStep, int]]:
    for record, step in zip(records, measured_steps(records, request.traits), strict=True):
        yield step, record.updates_per_step or 1


def _timed(
    step: MeasuredStep, updates: int, request: Request, before: Coefficients, after: Coefficients
) -> Iterator[_Timed]:
    """Yield what was timed of a step and can be priced, in seconds of a batch."""
    earlier, later = (priced_phases(request.workload, request.hardware.gpu, step, known) for known in (before, after))
    single: list[tuple[Phases, float]] = [((phase,), took) for phase, took in step.seconds.items()]
    for what, took in (*single, *step.together.items()):
        prices = tuple(_of(phases, what, updates) for phases in (earlier, later))
        if took > 0 and total(prices[0]) > 0:
            yield _Timed(what, updates * took, *prices)
    if step.whole is not None:
        wholes = (_times(priced_whole(phases, step.traits), updates) for phases in (earlier, later))
        yield _Timed((), updates * step.whole, *wholes)


def _of(phases: Mapping[Phase, Seconds], what: Phases, updates: int) -> Seconds:
    whole: Seconds = {}
    for phase in what:
        for driver, part in phases[phase].items():
            whole[driver] = whole.get(driver, 0.0) + updates * part
    return whole


def _times(seconds: Seconds, updates: int) -> Seconds:
    return {driver: updates * part for driver, part in seconds.items()}


def _ratio(pairs: Iterable[tuple[float, float]]) -> float:
    return math.exp(fmean(math.log(predicted / measured) for predicted, measured in pairs))


def _far(what: Phases, timed: Sequence[_Timed], known: Coefficients) -> str | None:
    """Say how many times its price a phase takes, where that is beyond the price's interval."""
    took = fmean(each.took for each in timed)
    times = 1 / _ratio((total(each.before), each.took) for each in timed)
    width = Z90 * math.hypot(known.log_sd(timed[0].before), PHASE_LOG_SD)
    if abs(math.log(times)) <= max(width, math.log(LEAST_ODD)):
        return None
    name = " and ".join(NAMES[phase] for phase in what)
    factor = f"{times:.2g} times its price" if times > 1 else f"1/{1 / times:.2g} of its price"
    return f"{name} takes {aligned_hours(took)} s a step, {factor}"


def _drifting(records: Sequence[CostRecord]) -> list[str]:
    lengths = [record.mean_response_tokens for record in records]
    latest = latest_mean(lengths)
    if math.isclose(latest, math.exp(fmean(map(math.log, lengths)))):
        return []
    first, last = lengths[0], lengths[-1]
    moved = "grow" if last > first else "shrink"
    return [f"responses {moved} from {first:,.0f} to {last:,.0f} tokens: plans take the later half's {latest:,.0f}"]


def _unaccounted(records: Sequence[CostRecord]) -> list[str]:
    """Say how much of a synchronous step lies outside its phases, where generation and update are among them."""
    shares, seconds = [], []
    for record in records:
        timed = {name: took for name, took in record.seconds.items() if name in {phase.value for phase in Phase}}
        for phase in OUTSIDE:
            timed.pop(phase.value, None)
        whole = record.seconds.get("step")
        if whole and not record.asynchronous and {Phase.GENERATE.value, Phase.TRAIN.value} <= timed.keys():
            seconds.append(whole - sum(timed.values()))
            shares.append(seconds[-1] / whole)
    if not shares or fmean(shares) < UNACCOUNTED:
        return []
    return [f"{aligned_hours(fmean(seconds))} s of a step ({fmean(shares):.0%}) belong to no phase that its log times"]
