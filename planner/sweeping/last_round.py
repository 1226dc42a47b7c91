"""The last round: what is left of the money takes the configurations in front to the length of the final run.

What a segment gains per GPU-hour says what to buy while more can follow. With the last of the money nothing follows:
what counts then is the choice, and between near-equals only the rest of their runs decides. (Successive halving ends
so: Karnin, Koren, Somekh, Almost optimal exploration in multi-armed bandits, 2013.)
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from planner.sweeping.actions import Advance
from planner.sweeping.advancing import advance, hours
from planner.sweeping.chances import OUT, Chances
from planner.sweeping.grants import MARGIN, grant
from planner.view import Configuration, TrialView, View, by_configuration

FINALISTS = 3  # configurations, the best by expectation
MOST = 1 / 3  # of the sweep's GPU-hours: what pays for little more than their ends has to look at others first


def front_runs(view: View, chances: Chances, given_up: Collection[int], money: float) -> list[TrialView]:
    """Return of each configuration in front its longest run, where that can go on to the end; the best first.

    None where their ends would take more than a third of the GPU-hours that the sweep had, and none that is given up.
    """
    runs = by_configuration(view.trials.values())
    found = []
    for place in np.argsort(-chances.mean, kind="stable")[:FINALISTS]:
        alive = [trial for trial in runs.get(chances.candidates[int(place)], []) if trial.state not in OUT]
        longest = max(alive, key=lambda trial: (trial.step, -trial.trial), default=None)
        if longest is not None and longest.ready and longest.trial not in given_up:
            found.append(longest)
    return found if ends_price(found) <= MOST * money else []


def ends_price(runs: Sequence[TrialView]) -> float:
    """Return what it takes to train these runs to the end."""
    return sum(trial.price(trial.most_steps) for trial in runs)


def is_last_round(runs: Sequence[TrialView], left: float, next_price: float) -> bool:
    """Say whether what is left no longer pays for another segment and for the ends of these runs as well."""
    return bool(runs) and left < MARGIN * (next_price + ends_price(runs))


def to_the_end(
    view: View,
    chances: Chances,
    runs: Sequence[TrialView],
    left: float,
    busy: Collection[int],
    beside: Callable[[Configuration], list[dict[str, Any]]],
) -> list[Advance]:
    """Train these runs to the end, as far as workers and money go.

    Those that were just bought are busy; `beside` says what else could be bought than a configuration's own.
    """
    actions: list[Advance] = []
    for trial in runs:
        granted = None if trial.trial in busy else grant(trial, trial.most_steps, left)
        if granted is not None and len(busy) + len(actions) < view.free_workers:
            left -= granted.gpu_hours
            figures = chances.figures(chances.place[trial.configuration])
            sentence = _why(view, figures, len(runs))
            actions.append(advance(view, trial, granted.to_step, sentence, figures, beside(trial.configuration)))
    return actions


def _why(view: View, figures: dict[str, float], runs: int) -> str:
    return (
        f"it is among the {FINALISTS} in front, and what is left is for their ends, which decide between near-equals "
        f"({runs} to go); at {hours(view.target_gpu_hours)} GPU-hours it is predicted {figures['median']:.2f} "
        f"({figures['low']:.2f} to {figures['high']:.2f}) and P(best) is {figures['probability_best']:.2g}"
    )
