"""How far a run is, what it has taken and will take, what was its best, and what part of its rollouts was in vain."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from budgets.hardware import SECONDS_PER_HOUR
from planner.adopting.records import Step

NEWEST = 20  # updates whose time and rollouts count as typical of those to come


@dataclass(frozen=True, slots=True)
class Progress:
    """A run as far as it is, by its log's own steps; None where its log, or whoever asks, does not say."""

    step: int
    end: int | None  # its last step
    seconds: float | None  # so far, validations included
    seconds_per_step: float | None  # likewise, of the newest
    best: tuple[int, float] | None  # the step and its score
    now: tuple[int, float] | None
    dead_groups: float | None  # share of the newest groups
    cut_off: float | None  # share of the newest responses
    gpus: int | None = None
    dollars_per_gpu_hour: float | None = None
    ahead: int = 0  # updates that are done at its step 0

    @property
    def seconds_left(self) -> float | None:
        """Seconds to its end."""
        if self.end is None or self.seconds_per_step is None:
            return None
        return max(0, self.end - self.step - self.ahead) * self.seconds_per_step

    @property
    def gpu_hours(self) -> tuple[float, float | None] | None:
        """GPU-hours so far, and at its end."""
        if self.gpus is None or self.seconds is None:
            return None
        now, left = self.seconds * self.gpus / SECONDS_PER_HOUR, self.seconds_left
        return now, None if left is None else now + left * self.gpus / SECONDS_PER_HOUR


def progress_of(
    steps: Sequence[Step],
    end: int | None,
    gpus: int | None = None,
    dollars_per_gpu_hour: float | None = None,
    ahead: int = 0,
) -> Progress | None:
    """Say how far a run is; None before its first update."""
    updates = [each for each in steps if each.step]
    if not updates:
        return None
    newest, before = updates[-NEWEST:], updates[-NEWEST - 1].step if len(updates) > NEWEST else 0
    timed = all(each.took is not None for each in updates)
    scores = [(max(0, each.step - ahead), each.score) for each in steps if each.score is not None]
    return Progress(
        step=updates[-1].step - ahead,
        end=end,
        seconds=sum(each.took or 0.0 for each in steps) if timed else None,
        seconds_per_step=sum(each.took or 0.0 for each in newest) / (newest[-1].step - before) if timed else None,
        best=max(scores, key=lambda each: each[1], default=None),
        now=scores[-1] if scores else None,
        dead_groups=_mean(newest, "zero_variance_share"),
        cut_off=_mean(newest, "truncated_share"),
        gpus=gpus,
        dollars_per_gpu_hour=dollars_per_gpu_hour,
        ahead=ahead,
    )


def _mean(steps: Sequence[Step], name: str) -> float | None:
    known = [each.values[name] for each in steps if name in each.values]
    return statistics.fmean(known) if known else None
