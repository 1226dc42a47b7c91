"""What could be trained next: segments of several lengths of every trial, and pilots of cells that have none."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from planner.policy.grants import MARGIN
from planner.view import Configuration, OpenCell, TrialState, TrialView, View, by_configuration

LENGTHS = (1, 3, 9, 60)  # quanta: what one tells may be nothing, and what nine tell much
QUANTA = 25  # that the pilot money is cut into; shorter segments are decisions without a difference
MOST_OF_A_CONFIGURATION = 3  # ready trials that are looked at, the farthest first
MOST_PILOT = 8  # shortest pilots of an open cell that are looked at in one go


@dataclass(frozen=True, slots=True)
class Offer:
    """A segment that could be bought; `trial` is None for a pilot that is to be planned first.

    That is one of an open cell, or a run with another seed of a configuration that has some.
    """

    configuration: Configuration
    trial: TrialView | None
    cell: OpenCell | None
    seed: int | None
    from_gpu_hours: float  # of the run's training, as it is compared
    to_gpu_hours: float
    to_step: int
    scores: float  # how many it brings
    price: float


def offers(view: View, money: float, finalists: Collection[Configuration] = ()) -> list[Offer]:
    """List the segments that the money left pays for; of trials that have not begun, one of each configuration.

    Of finalists a run with another seed is offered too, where the view allows that.
    """
    all_offers: list[Offer] = []
    for trials in by_configuration(trial for trial in view.trials.values() if trial.ready).values():
        begun = sorted((trial for trial in trials if trial.step > 0), key=lambda trial: (-trial.step, trial.trial))
        fresh = [trial for trial in trials if trial.step == 0][:1]
        for trial in (*begun[:MOST_OF_A_CONFIGURATION], *fresh):
            all_offers += _segments(view, trial, money)
    for cell in view.open_cells.values():
        all_offers += _pilots(view, cell)
    if view.replicates:
        all_offers += _replicates(view, finalists)
    return all_offers


def money_of(view: View) -> float:
    """Return the GPU-hours of the whole sweep as far as the view tells: what is left, and what trials have used."""
    return view.gpu_hours_left + math.fsum(trial.gpu_hours_spent for trial in view.trials.values())


def pending(view: View, money: float) -> list[Offer]:
    """Return what is being trained, as far as a view tells: the next segment of each running trial."""
    running = (trial for trial in view.trials.values() if trial.state is TrialState.RUNNING)
    return [_segment(trial, _whole(trial, trial.step + _quantum(trial, money))) for trial in running]


def first_goal(trial: TrialView, share: float) -> int:
    """Return the step of a first pilot that takes this many GPU-hours, in whole segments."""
    return _whole(trial, share / trial.gpu_hours_per_step)


def _segments(view: View, trial: TrialView, money: float) -> Iterator[Offer]:
    quantum, last = _quantum(trial, money), trial.step
    for length in LENGTHS:
        to_step = _whole(trial, trial.step + length * quantum)
        offer = _segment(trial, to_step)
        if to_step <= last or (length > 1 and offer.price * MARGIN > view.gpu_hours_left):
            return
        last = to_step
        yield offer


def _segment(trial: TrialView, to_step: int) -> Offer:
    done = trial.scores[-1].gpu_hours if trial.scores else 0.0
    spacing = float(trial.segment_steps)  # the steps from one score to the next: as it was, or a segment
    if len(trial.scores) > 1:
        spacing = max(1.0, (trial.scores[-1].step - trial.scores[0].step) / (len(trial.scores) - 1))
    return Offer(
        configuration=trial.configuration,
        trial=trial,
        cell=None,
        seed=None,
        from_gpu_hours=done,
        to_gpu_hours=done + (to_step - trial.step) * trial.compared_per_step,
        to_step=to_step,
        scores=max(1.0, (to_step - trial.step) / spacing),
        price=trial.price(to_step),
    )


def _pilots(view: View, cell: OpenCell) -> Iterator[Offer]:
    for length in (1, MOST_PILOT):
        steps = length * cell.pilot_steps
        price = cell.start_up_gpu_hours + steps * cell.gpu_hours_per_step
        if price * MARGIN > view.gpu_hours_left:
            return
        yield Offer(
            cell.configuration, None, cell, None, 0.0, steps * cell.compared_per_step, steps, 4.0 * length, price
        )


def _replicates(view: View, finalists: Collection[Configuration]) -> Iterator[Offer]:
    """Offer a run with the next seed, as far as the longest one went; none while a seed has not begun."""
    runs = by_configuration(view.trials.values())
    for configuration in finalists:
        trials = runs.get(configuration, [])
        if not trials or min(trial.step for trial in trials) == 0:
            continue
        longest = max(trials, key=lambda trial: trial.step)
        seed = max(trial.seed for trial in trials) + 1
        begun = replace(longest, step=0, seed=seed, scores=(), gpu_hours_spent=0.0)
        offer = replace(_segment(begun, longest.step), trial=None, seed=seed)
        if offer.price * MARGIN <= view.gpu_hours_left:
            yield offer


def _quantum(trial: TrialView, money: float) -> float:
    """Return the fewest steps that make a decision, and that are worth the start-up before them."""
    return max(trial.segment_steps, max(money / QUANTA, trial.start_up_gpu_hours) / trial.gpu_hours_per_step)


def _whole(trial: TrialView, step: float) -> int:
    """Return the end of the segment in which a step lies."""
    segments = math.ceil(step / trial.segment_steps - 1e-6)
    return min(trial.most_steps, segments * trial.segment_steps)
