"""What a curve is doing, in one word, with the numbers that say so.

"Not identifiable" is an answer: while the asymptote's interval spans most of the scale, the points do not yet say where
the curve goes, whatever a point fit would return.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from planner.curves.preparation import Prepared
from planner.metrics import EQUIVALENCE_MARGIN


class Verdict(StrEnum):
    """What a curve is doing."""

    RISING = "rising"
    SATURATED = "saturated"
    FLAT = "flat"
    DECLINING = "declining"
    COLLAPSED = "collapsed"
    NOT_IDENTIFIABLE = "not-identifiable"


# Assumed, and held to this: noise alone is called a rise, a fall or a collapse in under 5 of 100 curves (the tests).
SIGNIFICANT = 3.0  # standard errors
MOST_OF_THE_SCALE = 0.6  # the width of A's interval from which on nothing is said of it
FEWEST_BINS = 5
# A collapse: the height that was held, what is left of it, and how many scores in a row show that.
LEAST_HEIGHT, LEFT_OF_A_COLLAPSE, LEAST_FALLEN = 0.1, 0.3, 2
LITTLE_MORE = 0.35  # probability of a notable rise by twice the compute, below which a risen curve has saturated
UNLIKELY = 0.05  # probability above which a 90 % interval has room for it on one side
RECENT_BINS = 3


@dataclass(frozen=True)
class State:
    """Where one curve stands, in units of its scale: start, peak and present level with their standard errors."""

    bins: int
    start: float
    start_error: float
    peak: float
    peak_error: float
    now: float
    now_error: float
    collapsed: bool = False  # most of a level that was well above zero is gone

    @property
    def rise(self) -> float:
        """How far the level lies above the start."""
        return self.now - self.start

    @property
    def fall(self) -> float:
        """How far the level lies below the peak."""
        return self.peak - self.now

    def risen(self) -> bool:
        """Whether the rise so far is notable and more than noise."""
        return self.rise > max(EQUIVALENCE_MARGIN, SIGNIFICANT * float(np.hypot(self.start_error, self.now_error)))

    def fallen(self) -> bool:
        """Whether the fall from the peak is notable and more than noise; a peak is the luckiest of many levels."""
        return self.fall > max(EQUIVALENCE_MARGIN, (SIGNIFICANT + 1) * float(np.hypot(self.peak_error, self.now_error)))


def before_collapse(scores: Sequence[float], errors: Sequence[float] | None = None) -> int:
    """Return how many scores come before a collapse: all, unless the last ones lie far below a height once held.

    With standard errors the fall must be more than their noise. A run that has collapsed says nothing of how its
    configuration learns, and nearly always stays where it fell.
    """
    count, height = len(scores), max(scores)
    while count > 0 and scores[count - 1] <= LEFT_OF_A_COLLAPSE * height:
        count -= 1
    fallen = len(scores) - count
    if height < LEAST_HEIGHT or fallen < LEAST_FALLEN or max(scores[:count], default=0.0) < height:
        return len(scores)
    if errors is not None:
        noise = np.hypot(errors[int(np.argmax(scores))], np.linalg.norm(errors[count:]) / fallen)
        if height - np.mean(scores[count:]) <= (SIGNIFICANT + 1) * noise:
            return len(scores)
    return count


def states(prepared: Prepared) -> list[State]:
    """Measure every curve's start, peak and present level over a few neighbouring bins each."""
    return [_state(prepared, row) for row in range(prepared.curves)]


def judge(state: State, chance_of_more: float, asymptote_width: float, scale_span: float) -> tuple[Verdict, str]:
    """Return the verdict and one sentence of evidence.

    `chance_of_more` is the probability of a notable rise by twice the compute, `asymptote_width` that of the 90 %
    interval of A, and `scale_span` what the scale spans, in the same units.
    """
    more = f"P(rise of {EQUIVALENCE_MARGIN:g} of the scale by twice the compute) = {chance_of_more:.2f}"
    width = f"the 90 % interval of A is {asymptote_width:.2g} of the scale wide"
    rose = f"rose by {round(state.rise, 6) + 0.0:.3g} of the scale"
    late = "a late start would look the same until it comes: " if chance_of_more > UNLIKELY else ""
    cases = (
        (state.collapsed, Verdict.COLLAPSED, f"fell from {state.peak:.3g} to {state.now:.3g} of the scale"),
        (state.fallen(), Verdict.DECLINING, f"{state.fall:.3g} of the scale below its peak; {more}"),
        (
            state.bins < FEWEST_BINS,
            Verdict.NOT_IDENTIFIABLE,
            f"only {state.bins} distinct {'point' if state.bins == 1 else 'points'}",
        ),
        (not state.risen(), Verdict.FLAT, f"{rose} so far, within noise; {late}{more}"),
        (chance_of_more < LITTLE_MORE, Verdict.SATURATED, f"{rose}; {more}"),
        (asymptote_width > MOST_OF_THE_SCALE * scale_span, Verdict.NOT_IDENTIFIABLE, f"{rose}, but {width}; {more}"),
    )
    return next(
        ((verdict, evidence) for holds, verdict, evidence in cases if holds),
        (Verdict.RISING, f"{rose}; {more}; {width}"),
    )


def _state(prepared: Prepared, row: int) -> State:
    filled = prepared.weight[row] > 0
    score, precision = prepared.score[row][filled], 1 / prepared.variance[row][filled]
    # Weighted means over a few neighbouring bins, with their standard errors.
    window = np.ones(min(RECENT_BINS, len(score)))
    weight = np.convolve(precision, window, mode="valid")
    levels, errors = np.convolve(precision * score, window, mode="valid") / weight, 1 / np.sqrt(weight)
    peak = int(np.argmax(levels))
    return State(
        bins=len(score),
        start=float(levels[0]),
        start_error=float(errors[0]),
        peak=float(levels[peak]),
        peak_error=float(errors[peak]),
        now=float(levels[-1]),
        now_error=float(errors[-1]),
        collapsed=before_collapse(score.tolist(), np.sqrt(1 / precision).tolist()) < len(score),
    )
