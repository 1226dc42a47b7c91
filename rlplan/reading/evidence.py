"""How far the curves of a sweep can be trusted: prices, the noise of scores, collapses, how far it foretells."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.axes import LEARNING_RATE, without
from planner.curves.verdicts import before_collapse
from planner.recommending.cautions import FAR
from planner.sweeping.chances import NEAR
from planner.view import Seen
from rlplan.reading.rows import Priced
from rlplan.reading.story import Flag, Health
from rlplan.reading.sweep_picture import Score, TrialRow
from rlplan.wording.numbers import hours

FEWEST_STEPS = 2  # from which on a price was measured
NAMED = 3


def evidence(
    trials: Sequence[TrialRow], planned: Mapping[tuple[int, int, Any], Priced], target_gpu_hours: float
) -> Iterator[Flag]:
    """Yield what the scores and the prices of a sweep are to be read with."""
    yield from _prices(trials, planned)
    yield from _noise(trials)
    yield from _collapses(trials)
    yield from _reach(trials, target_gpu_hours)


def _prices(trials: Sequence[TrialRow], planned: Mapping[tuple[int, int, Any], Priced]) -> Iterator[Flag]:
    ratios, lows, highs = [], [], []
    for trial in trials:
        price, plan = measured_price(trial), _plan_of(trial, planned)
        if price is not None and plan is not None and plan.cell.gpu_hours_per_step > 0:
            expected = plan.cell.gpu_hours_per_step
            ratios.append(price / expected)
            lows.append(plan.low / expected)
            highs.append(plan.high / expected)
    if not ratios:
        return
    ratio, low, high = (statistics.median(each) for each in (ratios, lows, highs))
    runs = "one run" if len(ratios) == 1 else f"{len(ratios)} runs"
    text = (
        f"a step takes {ratio:.2g} × the planned GPU-hours (the median of {runs}; planned with {low:.2g} to {high:.2g})"
    )
    if low <= ratio <= high:
        yield Flag(Health.GOOD, f"prices hold: {text}")
    else:
        more = "fewer" if ratio > 1 else "more"
        yield Flag(Health.MIND, f"prices are off: {text}, so the final run has {more} updates than planned")


def measured_price(trial: TrialRow) -> float | None:
    """Return the GPU-hours that a step took from a trial's first score to its last, None where that is unknown."""
    if not trial.scores:
        return None
    first, last = trial.scores[0], trial.scores[-1]
    taken, steps = last.gpu_hours - first.gpu_hours, last.step - first.step
    return taken / steps if steps >= FEWEST_STEPS and taken > 0 else None


def _plan_of(trial: TrialRow, planned: Mapping[tuple[int, int, Any], Priced]) -> Priced | None:
    n, B = trial.rollouts_per_prompt, trial.prompts_per_batch
    return planned.get((n, B, trial.axes)) or planned.get((n, B, without(trial.axes, LEARNING_RATE)))


def _noise(trials: Sequence[TrialRow]) -> Iterator[Flag]:
    """Compare a validation's standard error with what lies between the two best allocations at the target."""
    seen = [trial for trial in trials if trial.scores]
    errors = [trial.scores[-1].standard_error for trial in seen]
    known = [error for error in errors if error is not None]
    if seen and not known:
        yield Flag(Health.MIND, "the scores come without a standard error: their noise is estimated from their jumps")
    best: dict[tuple[Any, ...], float] = {}
    for trial in seen:
        if trial.forecast:
            key = (trial.rollouts_per_prompt, trial.prompts_per_batch, trial.axes)
            best[key] = max(best.get(key, 0.0), trial.forecast.mean)
    if not known or len(best) < 2:
        return
    first, second = sorted(best.values(), reverse=True)[:2]
    error, gap = statistics.median(known), first - second
    if error > max(gap, NEAR):
        yield Flag(
            Health.MIND,
            f"a single validation has a standard error of {error:.3f}, and the two best are expected to differ by "
            f"{gap:.3f}: more validation problems would tell more",
        )


def _collapses(trials: Sequence[TrialRow]) -> Iterator[Flag]:
    fallen = [trial for trial in trials if collapsed_from(trial.scores) is not None]
    if fallen:
        names = ", ".join(trial.name for trial in fallen[:NAMED])
        more = f" and {len(fallen) - NAMED} more" if len(fallen) > NAMED else ""
        scored = sum(bool(trial.scores) for trial in trials)
        what = "collapsed" if len(fallen) > 1 else "has collapsed"
        yield Flag(Health.MIND, f"{len(fallen)} of {scored} runs {what} ({names}{more})")


def collapsed_from(scores: Sequence[Score | Seen]) -> float | None:
    """Return the GPU-hours from which on a run's scores count as collapsed, None for one that did not."""
    kept = before_collapse([each.score for each in scores]) if scores else 0
    return scores[kept].gpu_hours if kept < len(scores) else None


def _reach(trials: Sequence[TrialRow], target_gpu_hours: float) -> Iterator[Flag]:
    longest = max((trial.scores[-1].gpu_hours for trial in trials if trial.scores), default=0.0)
    if longest <= 0:
        return
    factor = target_gpu_hours / longest
    if factor > FAR:
        yield Flag(
            Health.MIND,
            f"the final run of {hours(target_gpu_hours)} GPU-hours is {factor:.0f} × as long as the longest pilot "
            f"({hours(longest)}): what is said of it rests on the shape of the curves",
        )
