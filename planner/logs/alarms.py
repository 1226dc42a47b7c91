"""What finds a run that goes wrong: its validation falls below its own best, or its updates teach nothing.

With 5 errors apart it warned of one of 67 healthy runs, and found 27 of 31 bad ones with two thirds of the run unspent.
Left out is what was measured to cry wolf or to come too late on 94 public curves and 111 runs with signals: entropy,
norms of gradients, KL, and alarms of the forecast.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Rule = Literal["fall", "hacking", "dead", "not-finite"]

FEWEST = 4  # validations before the rule speaks
LEAST_FALL = 0.05
ERRORS_APART = 4.5  # of a pair's error, where errors are known: docs/watching.md has what others find
INFLATED = 1.3  # times the error that is said: problems are asked again, and scores between validations wander
APART_WITHOUT = 6.0  # errors of the difference of two windows, estimated from the scores themselves
WITHOUT_LARGEST = 1.2  # the largest step is left out, since it may be the collapse itself; of few it is a good part
FEWEST_IN_WINDOW = 3
WINDOW_ERROR = 0.0375  # what the error of a window's mean may be; noisier scores get a longer window
REWARD_TOLERANCE = 0.02  # by which the training reward may fall and still count as not having fallen


@dataclass(frozen=True, slots=True)
class Scored:
    """A validation: its score between 0 and 1, its error, and the mean training reward since the one before."""

    x: float
    score: float
    error: float | None = None
    reward: float | None = None


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning with what it rests on and what to do."""

    rule: Rule
    evidence: str
    advice: str


def fall(points: Sequence[Scored]) -> Warned | None:
    """Warn where the newest validations lie further below the best that came before than their errors explain."""
    return falls(points, len(points) - 1)[-1] if points else None


def falls(points: Sequence[Scored], first: int = 0) -> list[Warned | None]:
    """Return what `fall` says after each validation, from the first on."""
    scores = np.array([point.score for point in points])
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    steps = np.abs(np.diff(scores, prepend=scores[:1]))
    # Σ (s_t − s_{t−1})² without the largest, which may be the collapse itself
    squares = np.cumsum(steps**2) - np.maximum.accumulate(steps) ** 2
    errors = np.array([math.nan if point.error is None else point.error for point in points])
    error_squares = np.cumsum((INFLATED * errors) ** 2)  # NaN from the first that is not known
    outside = np.cumsum(~((scores >= 0) & (scores <= 1)))
    warnings: list[Warned | None] = []
    for count in range(first + 1, len(points) + 1):
        if count < FEWEST or outside[count - 1]:
            warnings.append(None)
            continue
        if math.isfinite(square := error_squares[count - 1] / count):
            # means of two neighbours, which may lie apart by the errors that are said
            width, allowed = 2, max(LEAST_FALL, ERRORS_APART * math.sqrt(square))
        else:  # windows as long as the scatter from one validation to the next makes it necessary
            scatter = WITHOUT_LARGEST * math.sqrt(max(0.0, squares[count - 1]) / (count - 2) / 2)
            width = max(FEWEST_IN_WINDOW, math.ceil((scatter / WINDOW_ERROR) ** 2))
            allowed = max(LEAST_FALL, APART_WITHOUT * scatter * math.sqrt(2 / width))
        warnings.append(_fallen(points, sums[: count + 1], width, allowed))
    return warnings


def _fallen(points: Sequence[Scored], sums: NDArray[np.float64], width: int, allowed: float) -> Warned | None:
    now = len(sums) - 1 - width
    if now < width:
        return None
    means = (sums[width:] - sums[:-width]) / width
    best = int(np.argmax(means[: now - width + 1]))
    drop = means[best] - means[now]
    if drop <= allowed:
        return None
    at = points[best + width - 1]
    evidence = (
        f"the mean of the last {width} validations, {means[now]:.3f}, is {drop:.3f} below the best of {width} before "
        f"it, {means[best]:.3f} at {at.x:g}; up to {allowed:.3f} would be noise"
    )
    advice = f"go back to the checkpoint at {at.x:g} or before it, and try a lower learning rate"
    if _reward_held(points, best, now, width):
        return Warned(
            "hacking",
            f"{evidence}, and the training reward did not fall: suspected reward hacking",
            f"look at responses of the training problems, and {advice}",
        )
    return Warned("fall", evidence, advice)


def _reward_held(points: Sequence[Scored], best: int, now: int, width: int) -> bool:
    """Whether the training reward stands as high as when the validation was best; False where it is not known."""
    then, since = ([point.reward for point in points[begin : begin + width]] for begin in (best, now))
    rewards_then, rewards_since = ([reward for reward in part if reward is not None] for part in (then, since))
    if not (rewards_then and rewards_since):
        return False
    return statistics.fmean(rewards_since) > statistics.fmean(rewards_then) - REWARD_TOLERANCE


DEAD_UPDATES = 5  # in a row
FEWEST_GROUPS = 8
WITHOUT_SIGNAL = 0.999  # share of groups whose rewards are all alike
DEAD_PASS_RATE = 0.02  # pass rate


class UpdateWatch:
    """Watches the metrics of each update, by our names; what it remembers can be saved."""

    def __init__(self, groups: int | None = None) -> None:
        """Take how many groups an update has, where that is known."""
        self._groups = groups
        self._dead = 0

    def see(self, step: int, metrics: Mapping[str, Any]) -> Warned | None:
        """Return what is wrong after an update."""
        for name in ("loss", "grad_norm"):
            # JSON, and so what is stored, has a null in the place of a number that is not finite.
            if name in metrics and (metrics[name] is None or not math.isfinite(metrics[name])):
                value = "not a finite number" if metrics[name] is None else f"{metrics[name]}"
                return Warned(
                    "not-finite", f"{name} is {value} in update {step}", "use a lower learning rate, or a smaller clip"
                )
        self._dead = self._dead + 1 if self._is_dead(metrics) else 0
        if self._dead < DEAD_UPDATES:
            return None
        return Warned(
            "dead",
            f"for {self._dead} updates up to {step} no group had rewards that differ, at a pass rate of at most "
            f"{DEAD_PASS_RATE:g}",
            "nothing is learnt: take easier problems, more rollouts per prompt, or look at the reward",
        )

    def _is_dead(self, metrics: Mapping[str, Any]) -> bool:
        rate = metrics.get("pass_rate", metrics.get("reward"))
        if rate is None or rate > DEAD_PASS_RATE or (self._groups is not None and self._groups < FEWEST_GROUPS):
            return False
        return metrics.get("zero_variance_share", 0.0) >= WITHOUT_SIGNAL or metrics.get("grad_norm") == 0.0

    def state(self) -> list[float]:
        """Return what it remembers."""
        return [float(self._dead)]

    def restore(self, state: list[float]) -> None:
        """Go on from a saved state."""
        self._dead = int(state[0])
