"""The signs of health of a sweep, and of the lack of it: what a careful reader of its result must know."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from budgets.hardware import SECONDS_PER_HOUR
from planner.axes import LEARNING_RATE, without
from planner.curves.verdicts import before_collapse
from planner.metrics import EQUIVALENCE_MARGIN
from planner.percent import percent
from planner.recommend.cautions import FAR_TIMES
from planner.store.schema import SegmentOutcome, SweepStatus
from planner.view import Configuration, ScorePoint, TrialState
from rlplan.reading.sweep_picture import Money, Picture, SegmentRow, TrialRow, overrun
from rlplan.reading.sweep_words import last_line
from rlplan.wording.command_lines import command
from rlplan.wording.numbers import aligned_hours, duration, hours, plural, some_of

SILENT_SECONDS = 20.0  # a driver gives a sign of life every five
MUCH, TOO_MUCH = 0.10, 0.25  # share of GPU-hours that trained nothing
UNCHARGED = 0.02  # share of the workers' time that is forgiven: between a row's moment and the next
NAMED = 3
REASON = 120  # signs of a log's last line

FEWEST_STEPS = 2  # from which on a price was measured

WASTED = (SegmentOutcome.FAILED, SegmentOutcome.LOST)


@dataclass(frozen=True, slots=True)
class Charged:
    """GPU-hours of a worker that belong to no segment, such as waiting."""

    at: datetime
    worker: str
    kind: str
    gpu_hours: float


class Health(StrEnum):
    """How much a flag matters."""

    GOOD = "good"
    MIND = "mind"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Flag:
    """One sign of health or the lack of it."""

    health: Health
    text: str


class Priced(NamedTuple):
    """The planned GPU-hours of a step, with their 90 % interval."""

    expected: float
    low: float
    high: float


def flags(
    picture: Picture,
    ran: Sequence[SegmentRow],
    charged: Sequence[Charged],
    planned: Mapping[Configuration, Priced],
    target_gpu_hours: float,
    slots: float,
    database: str,
) -> tuple[Flag, ...]:
    """Return what is to be known, the worst first; what a recommendation itself warns of is not in it."""
    found = [
        *_driver(picture, database),
        *_failures(picture, ran),
        *_money(picture.money),
        *_accounts(ran, charged, slots),
        *evidence(picture.trials, planned, target_gpu_hours),
    ]
    return tuple(sorted(found, key=lambda flag: tuple(Health).index(flag.health), reverse=True))


def _driver(picture: Picture, database: str) -> Iterator[Flag]:
    driver = picture.driver
    resume = f"go on with `{command('resume', picture.sweep, database)}`"
    if picture.abandoned:
        who = f" (process {driver.pid} on {driver.host})" if driver else ""
        heard = f", last heard of {duration(driver.silent_seconds / SECONDS_PER_HOUR)} ago" if driver else ""
        yield Flag(Health.BAD, f"its driver{who} is gone{heard}: {resume}")
    elif driver and driver.alive and driver.silent_seconds > SILENT_SECONDS:
        silent = duration(driver.silent_seconds / SECONDS_PER_HOUR)
        yield Flag(Health.MIND, f"its driver (process {driver.pid} on {driver.host}) has been silent for {silent}")
    elif driver and driver.alive:
        yield Flag(Health.GOOD, f"its driver (process {driver.pid} on {driver.host}) is alive")
    elif picture.status is SweepStatus.INTERRUPTED:
        yield Flag(Health.MIND, f"it was stopped before its end: {resume}")
    elif picture.status is SweepStatus.FAILED:
        yield Flag(Health.BAD, "it failed: no trial got far enough for a recommendation")


def _failures(picture: Picture, ran: Sequence[SegmentRow]) -> Iterator[Flag]:
    for kind, trials in picture.failures.items():
        what = "one trial has" if len(trials) == 1 else f"{len(trials)} trials have"
        yield Flag(Health.BAD, f"{what} failed with {kind} ({named(trials)}){_commonest_reason(trials)}")
    lost = [trial for trial in picture.trials if trial.state is TrialState.LOST]
    if lost:
        yield Flag(Health.MIND, f"the workers of {named(lost)} were lost, and they have not been tried again yet")
    ended = [segment for segment in ran if segment.outcome is not SegmentOutcome.RESERVED]
    again = sum(segment.outcome in WASTED for segment in ended)
    if again and not picture.failures and not lost:
        yield Flag(Health.MIND, f"{again} of {len(ended):,} segments failed or were lost, and were done again")
    elif ended and not again and not picture.failures and not lost:
        yield Flag(Health.GOOD, f"no failures in {len(ended):,} segments")


def named(trials: Sequence[TrialRow]) -> str:
    """Name the first few trials and count the others."""
    return some_of([trial.name for trial in trials], NAMED)


def _commonest_reason(trials: Sequence[TrialRow]) -> str:
    reasons = Counter(line for trial in trials if (line := last_line(trial.failure_tail or "")))
    if not reasons:
        return ""
    reason, times = reasons.most_common(1)[0]
    shown = reason if len(reason) <= REASON else f"{reason[: REASON - 1]}…"
    return f": {shown}" if times == len(trials) else f", {times} of them with: {shown}"


def _money(money: Money) -> Iterator[Flag]:
    if over := overrun(money.spent + money.reserved_gpu_hours, money.pilot_gpu_hours):
        share = over / money.pilot_gpu_hours if money.pilot_gpu_hours > 0 else float("inf")
        yield Flag(
            Health.BAD,
            f"the pilots took {aligned_hours(over)} GPU-hours ({percent(share, 1)}) more than the "
            f"{hours(money.pilot_gpu_hours)} they had",
        )
    elif money.spent > 0:
        yield Flag(
            Health.GOOD,
            f"within budget: {aligned_hours(money.spent)} of {hours(money.pilot_gpu_hours)} GPU-hours spent",
        )
    if money.spent <= 0:
        return
    wasted = sum(money.by_outcome.get(outcome, 0.0) for outcome in WASTED)
    beside = sum(money.by_charge.values())
    share = (wasted + beside) / money.spent
    parts = [f"{percent(wasted / money.spent, 1)} in segments that failed or were lost"] if wasted else []
    parts += [f"{percent(amount / money.spent, 1)} {kind}" for kind, amount in money.by_charge.items() if amount]
    text = f"{percent(share, 1)} of the GPU-hours trained nothing" + (f" ({', '.join(parts)})" if parts else "")
    yield Flag(Health.BAD if share > TOO_MUCH else Health.MIND if share > MUCH else Health.GOOD, text)


def _accounts(ran: Sequence[SegmentRow], charged: Sequence[Charged], slots: float) -> Iterator[Flag]:
    """Compare what workers were charged with how long they lived, from when they were there to their last row."""
    lived = sum(_lives(ran, charged, slots).values()) * slots / SECONDS_PER_HOUR
    ended = [segment for segment in ran if segment.ended_at is not None]
    if any(segment.charged_gpu_hours is None for segment in ended):
        missing = sum(segment.charged_gpu_hours is None for segment in ended)
        yield Flag(Health.BAD, f"{missing} segments have ended and were charged nothing: their GPU-hours are unknown")
    if lived <= 0:
        return
    paid = sum(segment.charged_gpu_hours or 0.0 for segment in ended if segment.worker is not None)
    paid += sum(charge.gpu_hours for charge in charged)
    if paid >= (1 - UNCHARGED) * lived:
        yield Flag(Health.GOOD, f"every second is charged: workers lived {aligned_hours(lived)} GPU-hours")
    else:
        yield Flag(
            Health.MIND,
            f"workers lived {aligned_hours(lived)} GPU-hours and {aligned_hours(paid)} are charged: "
            f"{percent(1 - paid / lived, 1)} of their time is in no account",
        )


def _lives(ran: Sequence[SegmentRow], charged: Sequence[Charged], slots: float) -> dict[str, float]:
    """Return the seconds of each worker from when it was there to the last that was charged to it.

    A segment may wait for a new worker's process: that the worker was there shows in what its first one was charged.
    """
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for segment in ran:
        if segment.ended_at is None or segment.worker is None:
            continue
        ended = segment.ended_at.timestamp()
        began = ended - (segment.charged_gpu_hours or 0.0) * SECONDS_PER_HOUR / slots
        first.setdefault(segment.worker, max(began, segment.started_at.timestamp()))
        last[segment.worker] = max(last.get(segment.worker, ended), ended)
    for charge in charged:
        if charge.worker in last:
            last[charge.worker] = max(last[charge.worker], charge.at.timestamp())
    return {worker: last[worker] - first[worker] for worker in last}


def evidence(
    trials: Sequence[TrialRow], planned: Mapping[Configuration, Priced], target_gpu_hours: float
) -> Iterator[Flag]:
    """Yield what the scores and the prices of a sweep are to be read with."""
    yield from _prices(trials, planned)
    yield from _noise(trials)
    fallen = [trial for trial in trials if collapsed_from(trial.scores) is not None]
    if fallen:
        scored = sum(bool(trial.scores) for trial in trials)
        what = "collapsed" if len(fallen) > 1 else "has collapsed"
        yield Flag(Health.MIND, f"{len(fallen)} of {scored} runs {what} ({named(fallen)})")
    longest = max((trial.scores[-1].gpu_hours for trial in trials if trial.scores), default=0.0)
    if longest <= 0:
        return
    factor = target_gpu_hours / longest
    if factor > FAR_TIMES:
        yield Flag(
            Health.MIND,
            f"the final run of {hours(target_gpu_hours)} GPU-hours is {factor:.0f} × as long as the longest pilot "
            f"({hours(longest)}): what is said of it rests on the shape of the curves",
        )


def _prices(trials: Sequence[TrialRow], planned: Mapping[Configuration, Priced]) -> Iterator[Flag]:
    ratios, lows, highs = [], [], []
    for trial in trials:
        n, B, axes = trial.rollouts_per_prompt, trial.prompts_per_batch, trial.axes
        plan = planned.get(Configuration(n, B, axes)) or planned.get(Configuration(n, B, without(axes, LEARNING_RATE)))
        price = measured_price(trial)
        if price is not None and plan is not None and plan.expected > 0:
            ratios.append(price / plan.expected)
            lows.append(plan.low / plan.expected)
            highs.append(plan.high / plan.expected)
    if not ratios:
        return
    ratio, low, high = (statistics.median(factors) for factors in (ratios, lows, highs))
    text = (
        f"a step takes {ratio:.2g} × the planned GPU-hours (the median of {plural(len(ratios), 'run')}; planned with "
        f"{low:.2g} to {high:.2g})"
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


def _noise(trials: Sequence[TrialRow]) -> Iterator[Flag]:
    """Compare a validation's standard error with what lies between the two best allocations at the target."""
    scored = [trial for trial in trials if trial.scores]
    errors = [trial.scores[-1].standard_error for trial in scored]
    measured = [error for error in errors if error is not None]
    if scored and not measured:
        yield Flag(Health.MIND, "the scores come without a standard error: their noise is estimated from their jumps")
    best: dict[Configuration, float] = {}
    for trial in scored:
        if trial.forecast:
            key = Configuration(trial.rollouts_per_prompt, trial.prompts_per_batch, trial.axes)
            best[key] = max(best.get(key, 0.0), trial.forecast.mean)
    if not measured or len(best) < 2:
        return
    first, second = sorted(best.values(), reverse=True)[:2]
    error, gap = statistics.median(measured), first - second
    if error > max(gap, EQUIVALENCE_MARGIN):
        yield Flag(
            Health.MIND,
            f"a single validation has a standard error of {error:.3f}, and the two best are expected to differ by "
            f"{gap:.3f}: more validation problems would tell more",
        )


def collapsed_from(scores: Sequence[ScorePoint]) -> float | None:
    """Return the GPU-hours from which on a run's scores count as collapsed, None for one that did not."""
    start = before_collapse([point.score for point in scores]) if scores else 0
    return scores[start].gpu_hours if start < len(scores) else None
