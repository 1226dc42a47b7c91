"""How far the GPU-hours of a final run go, by what its own validations have measured."""

import math
from collections.abc import Sequence
from itertools import pairwise, takewhile

from planner.view import ScorePoint, TrialView

LAST_MARGIN = 1.1  # on the price of the last segment: a final run has measured many of the kind
CLOSER = 2 / 3  # of the spacing between validations, that the last ones may have
MEASURED_INTERVALS = 5  # between validations, the newest, that price the further ones: lengths of responses drift


def measured_price(scores: Sequence[ScorePoint], spacing: int) -> float | None:
    """Return the GPU-hours of a step over the newest validations, theirs included; None before two.

    Those of a pilot that the run goes on from are closer together, and dearer for it: they do not count.
    """
    own = list(takewhile(lambda pair: 2 * (pair[1].step - pair[0].step) >= spacing, reversed(list(pairwise(scores)))))
    if not own:
        return None
    (_, newest), (oldest, _) = own[0], own[:MEASURED_INTERVALS][-1]
    return (newest.gpu_hours - oldest.gpu_hours) / (newest.step - oldest.step)


def paid_steps(trial: TrialView, gpu_hours: float, further_start_up: float, limit: int | None = None) -> int:
    """Return the update, one that is validated, up to which GPU-hours pay for a final run.

    Only the next segment may have to start its worker; each further one takes `further_start_up` beside its updates.
    """
    segment = trial.segment_steps
    first = segment - trial.step % segment
    further = further_start_up + segment * trial.gpu_hours_per_step
    next_one = trial.start_up_gpu_hours + first * trial.gpu_hours_per_step
    if LAST_MARGIN * next_one > gpu_hours:
        return trial.step
    # What the margins of all but the last segment hold comes back.
    segments = math.floor((gpu_hours - next_one) / further - (LAST_MARGIN - 1))
    paid = trial.step + first + max(0, segments) * segment
    return paid if limit is None or paid <= limit else max(trial.step, limit // segment * segment)


def last_spacing(trial: TrialView, gpu_hours: float, start_up: float) -> int:
    """Return the updates between the last validations of a run, so that the very last is made as the GPU-hours end.

    They are those that it has unless it is near its end, and a quarter of them is won, which takes more than twice the
    start-up that other ones need.
    """
    spacing, price = trial.segment_steps, trial.gpu_hours_per_step
    if trial.most_steps - trial.step > spacing:
        return spacing
    paid = trial.step + math.floor((gpu_hours - start_up) / price - (LAST_MARGIN - 1) * spacing)
    closer = min(range(math.ceil(CLOSER * spacing), spacing + 1), key=lambda steps: paid % steps)
    won = paid - paid % closer - max(trial.step, trial.most_steps)
    return closer if 4 * won > spacing and won * price > 2 * start_up else spacing
