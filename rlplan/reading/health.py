"""The signs of health of a sweep, and of the lack of it: what a careful reader of its result must know."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from budgets.hardware import SECONDS_PER_HOUR
from planner.store.schema import SegmentOutcome, SweepStatus
from planner.trials import TrialState
from rlplan.reading.evidence import evidence
from rlplan.reading.rows import NO_WORKER, Priced
from rlplan.reading.story import Charged, Flag, Health, Stretch
from rlplan.reading.sweep_picture import Money, Picture, TrialRow
from rlplan.reading.sweep_words import last_line
from rlplan.wording.numbers import aligned_hours, duration, hours

SILENT_SECONDS = 20.0  # a driver gives a sign of life every five
ROUNDING = 1e-6  # of a budget, that adding up many floats is forgiven
MUCH, TOO_MUCH = 0.10, 0.25  # share of GPU-hours that trained nothing
UNCHARGED = 0.02  # share of the workers' time that is forgiven: between a row's moment and the next
NAMED = 3
REASON = 120  # signs of a log's last line

WASTED = (SegmentOutcome.FAILED, SegmentOutcome.LOST)


def flags(
    seen: Picture,
    ran: Sequence[Stretch],
    charged: Sequence[Charged],
    planned: Mapping[tuple[int, int, Any], Priced],
    target_gpu_hours: float,
    slots: float,
    damaged: Sequence[str] = (),
) -> tuple[Flag, ...]:
    """Return what is to be known, the worst first; what a recommendation itself warns of is not in it."""
    found = [
        *(Flag(Health.BAD, text) for text in damaged),
        *_driver(seen),
        *_failures(seen, ran),
        *_money(seen.money),
        *_accounts(ran, charged, slots),
        *evidence(seen.trials, planned, target_gpu_hours),
    ]
    return tuple(sorted(found, key=lambda flag: tuple(Health).index(flag.health), reverse=True))


def _driver(seen: Picture) -> Iterator[Flag]:
    driver = seen.driver
    resume = f"go on with `rlplan resume {seen.sweep}`"
    if seen.abandoned:
        who = f" (process {driver.pid} on {driver.host})" if driver else ""
        heard = f", last heard of {duration(driver.silent_seconds / SECONDS_PER_HOUR)} ago" if driver else ""
        yield Flag(Health.BAD, f"its driver{who} is gone{heard}: {resume}")
    elif driver and driver.alive and driver.silent_seconds > SILENT_SECONDS:
        silent = duration(driver.silent_seconds / SECONDS_PER_HOUR)
        yield Flag(Health.MIND, f"its driver (process {driver.pid} on {driver.host}) has been silent for {silent}")
    elif driver and driver.alive:
        yield Flag(Health.GOOD, f"its driver (process {driver.pid} on {driver.host}) is alive")
    elif seen.status is SweepStatus.INTERRUPTED:
        yield Flag(Health.MIND, f"it was stopped before its end: {resume}")
    elif seen.status is SweepStatus.FAILED:
        yield Flag(Health.BAD, "it failed: no trial got far enough for a recommendation")


def _failures(seen: Picture, ran: Sequence[Stretch]) -> Iterator[Flag]:
    for kind, trials in seen.failures.items():
        what = "one trial has" if len(trials) == 1 else f"{len(trials)} trials have"
        yield Flag(Health.BAD, f"{what} failed with {kind} ({named(trials)}){_commonest_reason(trials)}")
    lost = [trial for trial in seen.trials if trial.state is TrialState.LOST]
    if lost:
        yield Flag(Health.MIND, f"the workers of {named(lost)} were lost, and they have not been tried again yet")
    ended = [each for each in ran if each.outcome is not SegmentOutcome.RESERVED]
    again = sum(each.outcome in WASTED for each in ended)
    if again and not seen.failures and not lost:
        yield Flag(Health.MIND, f"{again} of {len(ended):,} segments failed or were lost, and were done again")
    elif ended and not again and not seen.failures and not lost:
        yield Flag(Health.GOOD, f"no failures in {len(ended):,} segments")


def named(trials: Sequence[TrialRow]) -> str:
    """Name the first few trials and count the others."""
    more = f" and {len(trials) - NAMED} more" if len(trials) > NAMED else ""
    return f"{', '.join(trial.name for trial in trials[:NAMED])}{more}"


def _commonest_reason(trials: Sequence[TrialRow]) -> str:
    reasons = Counter(line for trial in trials if (line := last_line(trial.failure_tail or "")))
    if not reasons:
        return ""
    reason, times = reasons.most_common(1)[0]
    shown = reason if len(reason) <= REASON else f"{reason[: REASON - 1]}…"
    return f": {shown}" if times == len(trials) else f", {times} of them with: {shown}"


def _money(money: Money) -> Iterator[Flag]:
    over = money.spent + money.reserved - money.pilot_gpu_hours
    if over > ROUNDING * money.pilot_gpu_hours:
        share = over / money.pilot_gpu_hours if money.pilot_gpu_hours > 0 else float("inf")
        yield Flag(
            Health.BAD,
            f"the pilots took {aligned_hours(over)} GPU-hours ({share:.1%}) more than the "
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
    parts = [f"{wasted / money.spent:.1%} in segments that failed or were lost"] if wasted else []
    parts += [f"{amount / money.spent:.1%} {kind}" for kind, amount in money.by_charge.items() if amount]
    text = f"{share:.1%} of the GPU-hours trained nothing" + (f" ({', '.join(parts)})" if parts else "")
    yield Flag(Health.BAD if share > TOO_MUCH else Health.MIND if share > MUCH else Health.GOOD, text)


def _accounts(ran: Sequence[Stretch], charged: Sequence[Charged], slots: float) -> Iterator[Flag]:
    """Compare what workers were charged with how long they lived, from when they were there to their last row."""
    lived = sum(_lives(ran, charged, slots).values()) * slots / SECONDS_PER_HOUR
    ended = [each for each in ran if each.ended_at is not None]
    if any(each.charged_gpu_hours is None for each in ended):
        missing = sum(each.charged_gpu_hours is None for each in ended)
        yield Flag(Health.BAD, f"{missing} segments have ended and were charged nothing: their GPU-hours are unknown")
    if lived <= 0:
        return
    paid = sum(each.charged_gpu_hours or 0.0 for each in ended if each.worker != NO_WORKER)
    paid += sum(each.gpu_hours for each in charged)
    if paid >= (1 - UNCHARGED) * lived:
        yield Flag(Health.GOOD, f"every second is charged: workers lived {aligned_hours(lived)} GPU-hours")
    else:
        yield Flag(
            Health.MIND,
            f"workers lived {aligned_hours(lived)} GPU-hours and {aligned_hours(paid)} are charged: "
            f"{1 - paid / lived:.1%} of their time is in no account",
        )


def _lives(ran: Sequence[Stretch], charged: Sequence[Charged], slots: float) -> dict[str, float]:
    """Return the seconds of each worker from when it was there to the last that was charged to it.

    A segment may wait for a new worker's process: that the worker was there shows in what its first one was charged.
    """
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    for each in ran:
        if each.ended_at is None or each.worker == NO_WORKER:
            continue
        ended = each.ended_at.timestamp()
        began = ended - (each.charged_gpu_hours or 0.0) * SECONDS_PER_HOUR / slots
        first.setdefault(each.worker, max(began, each.started_at.timestamp()))
        last[each.worker] = max(last.get(each.worker, ended), ended)
    for charge in charged:
        if charge.worker in last:
            last[charge.worker] = max(last[charge.worker], charge.at.timestamp())
    return {worker: last[worker] - first[worker] for worker in last}
