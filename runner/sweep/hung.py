"""When the worker of a segment counts as hung: it ends nothing by itself any more, and nobody else would."""

import statistics
from itertools import pairwise

from planner.config.trainer import Patience
from runner.sweep.board import OpenSegment

_UPDATES_UNDER_WAY = 2.0  # of the longest that was seen


def hung_because(
    segment: OpenSegment, now: float, used_gpu_hours: float, patience: Patience, *, may_pause: bool
) -> str | None:
    """Return why the worker of a segment has to be killed; None while it may still be at work.

    `now` is by the executor's clock. A worker is silent while it validates or saves; where that may take long
    (`may_pause`), as with somebody else's trainer or a copy to make, it has `pause_seconds` more for each.
    """
    pause = patience.pause_seconds if may_pause else 0.0
    steps = [(b.seconds - a.seconds, b.optimizer_step - a.optimizer_step) for a, b in pairwise(segment.points)]
    updates = [seconds / made for seconds, made in steps if made > 0]
    ends = pause + max(patience.stop_seconds, _UPDATES_UNDER_WAY * max(updates, default=0.0))
    silent = now - segment.heard_seconds
    if segment.asked_seconds is not None and now - segment.asked_seconds > ends:
        return f"it was asked to stop, and has not ended within {ends:,.0f} s (stop_seconds)"
    if used_gpu_hours > segment.reserved_gpu_hours and silent > ends:
        return f"what was reserved for it is used up, and nothing was heard of it for {silent:,.0f} s"
    most, key = patience.start_up_seconds, "start_up_seconds"
    if updates:
        most, key = max(patience.least_seconds, patience.median_steps * statistics.median(updates)), "least_seconds"
    if silent > most + pause:
        return f"nothing was heard of it for {silent:,.0f} s, and it has {most + pause:,.0f} s ({key})"
    return None
