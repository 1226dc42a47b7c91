"""How far a run is, in lines: its best and newest score, time, cost and waste, as far as they are known."""

from collections.abc import Iterator

from budgets.hardware import SECONDS_PER_HOUR
from planner.percent import percent
from planner.scripts.records import Progress
from rlplan.wording.numbers import duration


def lines_of(progress: Progress) -> Iterator[str]:
    """Yield the best and the newest score, time, cost and waste, as far as they are known."""
    if progress.best and progress.now:
        (best, score), (now, last) = progress.best, progress.now
        yield f"Best   {score:.3f} at step {best:,}" + (f"; now {last:.3f} at step {now:,}" if now != best else ", now")
    if progress.seconds_per_step is not None:
        pace, left = f"a step takes {duration(progress.seconds_per_step / SECONDS_PER_HOUR)}", progress.seconds_left
        ends = "" if left is None else f" of {progress.end:,}, {duration(left / SECONDS_PER_HOUR)} left"
        yield f"Time   step {progress.step:,}{ends}; {pace}"
    if progress.gpu_hours is not None:
        used, whole = (
            hours and f"{hours:,.3g} GPU-hours" + (f" (${price * hours:,.0f})" if price else "")
            for price, hours in ((progress.dollars_per_gpu_hour, each) for each in progress.gpu_hours)
        )
        yield f"Cost   {used} so far" + (f", {whole} at its end" if whole else "")
    waste = {"of the newest groups are dead": progress.dead_groups, "of the responses cut off": progress.cut_off}
    if shares := [f"{percent(share)} {what}" for what, share in waste.items() if share is not None]:
        yield f"Waste  {', '.join(shares)}"
