"""What is stored with the decisions of the policy `rlplan`: sentences, the figures behind them, and alternatives."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from planner.axes import named_configuration
from planner.curves.curve import Vector
from planner.metrics import EQUIVALENCE_MARGIN
from planner.percent import percent
from planner.policy.actions import Why
from planner.policy.chances import Chances
from planner.policy.grants import MARGIN
from planner.policy.offers import Offer
from planner.policy.table import MOST_ALTERNATIVES, hours, named
from planner.view import Configuration, TrialView, View

SURE_ENOUGH = 0.5  # P(within 0.02 of the best), from which on a recommendation says that what it takes will do
FIRST = "nothing is known of any configuration yet, and this one lies in the middle of the others"


def numbers(chances: Chances, offer: Offer, gain: float, rate: float) -> dict[str, Any]:
    """Return the figures that an offer was chosen by."""
    unconverged = chances.joint.unconverged
    return {
        **chances.figures(chances.place[offer.configuration]),
        "expected_gain": gain,
        "gain_per_gpu_hour": rate,
        **({"unconverged": unconverged} if unconverged else {}),
    }


def reason(view: View, numbers: dict[str, Any]) -> str:
    """Say why a segment is bought."""
    doubt = f"; {percent(numbers['unconverged'])} of the fit had not converged" if "unconverged" in numbers else ""
    return (
        f"this should improve the final choice by {numbers['expected_gain']:.2g}; expected score "
        f"{numbers['median']:.2f} ({numbers['low']:.2f} to {numbers['high']:.2f}) at "
        f"{hours(view.target_gpu_hours)} GPU-hours, P(best) {numbers['probability_best']:.2g}{doubt}"
    )


def alternatives(
    chances: Chances, offered: Sequence[Offer], gains: Vector, rates: Vector, chosen: Configuration
) -> list[dict[str, Any]]:
    """Return the best offers beside the chosen configuration's, one of each."""
    named_already = {chosen}
    rows: list[dict[str, Any]] = []
    for place in np.argsort(-rates, kind="stable"):
        offer = offered[int(place)]
        if offer.configuration in named_already:
            continue
        named_already.add(offer.configuration)
        trial = {"trial": offer.trial.trial, "name": offer.trial.name} if offer.trial is not None else {}
        rows.append(
            {
                "action": "propose" if offer.trial is None else "advance",
                "configuration": named_configuration(offer.configuration),
                **trial,
                "to_step": offer.to_step,
                "price_gpu_hours": offer.price,
                **numbers(chances, offer, float(gains[place]), float(rates[place])),
            }
        )
        if len(rows) == MOST_ALTERNATIVES:
            break
    return rows


def why_pruned(view: View, chances: Chances, trial: TrialView, place: int, limit: float) -> Why:
    """Say why a trial is given up, with the weakest of the others, which could have been instead."""
    leader = chances.leader
    interval, best_interval = (
        f"{chances.median[row]:.2f} ({chances.low[row]:.2f} to {chances.high[row]:.2f})" for row in (place, leader)
    )
    best = named_configuration(chances.candidates[leader])
    weakest = [int(row) for row in np.argsort(chances.near, kind="stable") if row != place][:MOST_ALTERNATIVES]
    return Why(
        f"{named(trial)} ends within {EQUIVALENCE_MARGIN:g} of the best at {hours(view.target_gpu_hours)} GPU-hours "
        f"with a probability of {chances.near_at_most[place]:.2g}, below {limit:.2g}: its expected score is "
        f"{interval}, that of {best} {best_interval}",
        {
            "limit": limit,
            "probability_near_best_at_most": float(chances.near_at_most[place]),
            "target_gpu_hours": view.target_gpu_hours,
            **chances.figures(place),
            **{f"leader_{name}": figure for name, figure in chances.figures(leader).items()},
        },
        [
            {"action": "prune", "configuration": named_configuration(chances.candidates[row]), **chances.figures(row)}
            for row in weakest
        ],
    )


def nothing_to_gain(view: View, chances: Chances, worth: Sequence[Offer]) -> str:
    """Say why no segment is bought: of those that are `worth` something none is paid for, or there is none."""
    leader = chances.leader
    if worth:
        least = min(worth, key=lambda offer: offer.price)
        name = named_configuration(least.configuration)
        why = (
            f"too little is left: the cheapest useful segment, {name} up to step {least.to_step:,}, needs "
            f"{hours(MARGIN * least.price)} GPU-hours with its start-up and a margin: more would pay for it"
        )
    elif not view.open_cells and not any(trial.ready for trial in view.trials.values()):
        why = "nothing is left to train: every trial is at its last step"
    elif chances.near[leader] >= SURE_ENOUGH:
        why = "the choice is settled: no segment that is paid for is expected to change it"
    else:
        why = "the pilots' GPU-hours that are left pay for too little to change the choice: more of them may change it"
    return (
        f"{why}; at {hours(view.target_gpu_hours)} GPU-hours {named_configuration(chances.candidates[leader])} is the "
        f"best with a probability of {chances.best[leader]:.3f}, and within {EQUIVALENCE_MARGIN:g} of it with "
        f"{chances.near[leader]:.3f}"
    )
