"""All runs of a table trained to the same share of the target, and what is then believed of the target."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.belief.pool import joint_of
from planner.curves.curve import Vector
from planner.replay.recorded import Recorded, RecordedRun
from planner.view import ScorePoint, TrialState, TrialView, View

DRAWS = 1000
MOST_SCORES = 8  # of a pilot: what a short segment is validated
UNSEEN = 0.25  # of the cells, which have no pilot
STEPS = 1_000_000  # of a final run; only a trial's place on the clock


@dataclass(frozen=True)
class Belief:
    """What was believed of one run at the target, and what came; `distance` is the target over what it had trained."""

    table: str
    distance: float
    scores: int
    expectation: float
    low: float
    high: float
    crps: float
    truth: float
    last: float  # the mean of its last two scores; NaN without a pilot
    recommended: bool = False  # expected to end the highest of its table

    @property
    def seen(self) -> bool:
        """Whether there is a pilot."""
        return not math.isnan(self.last)


def piloted(
    table: str, recorded: Recorded, target: float, distance: float, seed: int, unseen: float = UNSEEN
) -> tuple[View, dict[int, float]]:
    """Pilot one run of each cell but some to the target over the distance, where that has two scores.

    Beside the view stands what each of the runs came to.
    """
    rng = np.random.default_rng([seed, round(10 * distance), *table.encode()])
    first = {run.configuration: run for run in reversed(recorded.in_order(seed))}
    runs = [run for run in first.values() if run.length >= 0.9 * target]
    without = set(rng.permutation(len(runs))[: int(unseen * len(runs))].tolist())
    trials = {
        number: _trial(number, run, () if number in without else scores_until(run, target / distance), target)
        for number, run in enumerate(runs)
    }
    trials = {number: trial for number, trial in trials.items() if number in without or len(trial.scores) > 1}
    return View(trials, 0.0, target, 1, seed), {number: runs[number].score_near(target) for number in trials}


def beliefs(table: str, recorded: Recorded, target: float, distance: float, seed: int) -> list[Belief]:
    """Return what is believed of all runs where three quarters of the cells have a pilot."""
    view, ends = piloted(table, recorded, target, distance, seed)
    if not any(trial.scores for trial in view.trials.values()):
        return []
    worlds = joint_of(view, DRAWS)
    found = []
    for number, trial in view.trials.items():
        draws = worlds.at_target[:, worlds.place[trial.configuration]]
        found.append(belief(table, trial, target / distance, target, draws, ends[number]))
    return with_recommended(found)


def with_recommended(beliefs: Sequence[Belief]) -> list[Belief]:
    """Mark the belief of the highest expectation."""
    best = max(beliefs, key=lambda one: one.expectation, default=None)
    return [replace(one, recommended=one is best) for one in beliefs]


def belief(table: str, trial: TrialView, pilot: float, target: float, draws: Vector, truth: float) -> Belief:
    """Return what draws of one run's score at the target say, beside the score that came.

    Of a run without a pilot the distance is that of the others' pilots.
    """
    trained = [point.score for point in trial.scores if point.gpu_hours > 0]
    last = float(np.mean(trained[-2:])) if trained else math.nan
    distance = target / (trial.scores[-1].gpu_hours if trained else pilot)
    low, high = np.quantile(draws, (0.05, 0.95))
    apart = np.abs(draws - np.roll(draws, len(draws) // 2)).mean()
    crps = float(np.abs(draws - truth).mean() - 0.5 * apart)
    return Belief(table, distance, len(trained), float(draws.mean()), float(low), float(high), crps, truth, last)


def scores_until(run: RecordedRun, until: float, most: int = MOST_SCORES) -> tuple[ScorePoint, ...]:
    """Return a run's scores until a compute, the first one and so many spread over those that followed."""
    inside = np.flatnonzero(run.gpu_hours <= until * (1 + 1e-9))
    trained = inside[run.gpu_hours[inside] > 0]
    if not len(trained):
        return ()
    kept = trained[np.unique(np.linspace(0, len(trained) - 1, most).round().astype(int))]
    if run.gpu_hours[0] <= 0:
        kept = np.concatenate([[0], kept])
    errors = run.standard_errors
    return tuple(
        ScorePoint(
            int(place), float(run.gpu_hours[place]), float(run.scores[place]), None if errors is None else errors[place]
        )
        for place in kept
    )


def _trial(number: int, run: RecordedRun, scores: tuple[ScorePoint, ...], target: float) -> TrialView:
    n, B, axes = run.configuration
    done = scores[-1].gpu_hours if scores else 0.0
    return TrialView(
        trial=number,
        name=run.name,
        rollouts_per_prompt=n,
        prompts_per_batch=B,
        seed=run.seed,
        state=TrialState.PAUSED if scores else TrialState.PLANNED,
        step=int(done / target * STEPS),
        pilot_steps=STEPS,
        segment_steps=STEPS,
        most_steps=STEPS,
        gpu_hours_per_step=target / STEPS,
        start_up_gpu_hours=0.0,
        gpu_hours_spent=done,
        scores=scores,
        axes=axes,
    )
