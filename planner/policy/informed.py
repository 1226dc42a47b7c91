"""The policy `rlplan`: buys the segment that tells most about the choice per GPU-hour, and gives up what cannot win."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from planner.axes import named_configuration
from planner.belief.draws import JointDraws
from planner.belief.features import spread_out
from planner.belief.pool import Pool
from planner.curves.curve import Vector
from planner.policy.actions import Action, Advance, Propose, Prune, Stop, Why
from planner.policy.chances import ALPHA, Chances, bar
from planner.policy.grants import MARGIN, Grant, grant
from planner.policy.offers import Offer, first_goal, money_of, offers, pending
from planner.policy.reasons import FIRST, alternatives, nothing_to_gain, numbers, reason, why_pruned
from planner.policy.search import check_sampler, propose_cell
from planner.policy.table import TrialTable, advance, at_end, hours, nothing_left
from planner.policy.value import SegmentValues
from planner.view import Configuration, TrialState, TrialView, View, has_curve

DRAWS = 300  # for a decision among segments; what is printed and recommended rests on more
LEAST_GAIN = 1e-6  # in score; less is nothing
FIRST_SHARE = 0.1  # of the money for the pilots before any curve is known
LEAST_FIRST = 0.04  # of the target
MOST_FIRST = 64  # configurations that are looked at for them
SEARCH = "tpe"
MOST_PROPOSED = 0.5  # of the number of trials that the plan had
MOST_UNCONVERGED = 0.05  # weight of what a fit rests on and has not come to its mode, up to which trials are given up


class InformedPolicy:
    """Decides from the joint belief of all curves at the target.

    It prunes what has hardly a chance to be within 0.02 of the best, advances what the expected score of the choice
    gains most by per GPU-hour, proposes cells of the plan that promise more than any trial, and stops when nothing is
    gained, or when the final run would lose more by the GPU-hours than the choice gains.
    """

    name = "rlplan"

    def __init__(self, *, search: str | None = None, pool: Pool | None = None) -> None:
        if search is not None:
            check_sampler(search)
        self._search = search
        self._pool, self._table = pool or Pool(), TrialTable()

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        self._table.follow(view)
        closing = at_end(self._table, self._table["most"])
        if not any(has_curve(trial) for trial in view.trials.values()):
            self._pool.prepare(view)
            return [*closing, *(self._first_pilots(view) or self._nothing_left(view))]
        if view.free_workers < 1:
            return closing
        joint = self._pool.joint_draws(view, DRAWS)
        return [*closing, *self._next(view, joint)]

    def _first_pilots(self, view: View) -> list[Action]:
        """Start one pilot for each free worker, spread over the configurations: nothing is known of any yet."""
        trials = list(view.trials.values())
        configurations = list(dict.fromkeys(trial.configuration for trial in trials))
        fresh: dict[Configuration, TrialView] = {}
        for trial in trials:
            if trial.ready:
                fresh.setdefault(trial.configuration, trial)
        at_once = max(1, view.free_workers + sum(trial.state is TrialState.RUNNING for trial in trials))
        share = FIRST_SHARE * money_of(view) / at_once
        actions: list[Action] = []
        money = view.gpu_hours_left
        for place in spread_out(configurations, max(at_once, MOST_FIRST)):
            first = fresh.get(configurations[place])
            if first is None or len(actions) == view.free_workers:
                continue
            least = LEAST_FIRST * view.target_gpu_hours / first.compared_per_gpu_hour
            granted = grant(first, first_goal(first, max(share, least, first.start_up_gpu_hours)), money)
            if granted is not None:
                money -= granted.gpu_hours
                actions.append(advance(view, first, granted.to_step, FIRST, {}, []))
        return actions

    def _next(self, view: View, joint: JointDraws) -> list[Action]:
        """Prune, and buy the best offers one after the other, each as if what was bought before were on its way."""
        chances = Chances(view, joint)
        pruned = self._prunes(view, chances)
        gone = {action.trial for action in pruned}
        money = money_of(view)
        proposed = int(self._table["proposed"].sum())
        may_propose = proposed + 1 <= MOST_PROPOSED * (len(self._table) - proposed)  # else it has proposed its share
        offered = [
            offer
            for offer in offers(view, money, chances.finalists)
            if (may_propose if offer.trial is None else offer.trial.trial not in gone)
        ]
        value = SegmentValues(joint, offered, pending(view, money), chances.places)
        if bought := self._bought(view, chances, offered, value):
            return [*pruned, *bought]
        gains = value.gains(list(range(len(offered))))
        worth = [offer for offer, gain in zip(offered, gains, strict=True) if gain >= LEAST_GAIN]
        return [*pruned, *self._nothing_left(view, nothing_to_gain(view, chances, worth))]

    def _bought(self, view: View, chances: Chances, offered: Sequence[Offer], value: SegmentValues) -> list[Action]:
        """Buy while workers and money go; a proposal, or a better use of the money, ends it."""
        open_places = list(range(len(offered)))
        bought: list[Advance] = []
        money = view.gpu_hours_left
        while len(bought) < view.free_workers and open_places:
            still = [offered[place] for place in open_places]
            gains = value.gains(open_places)
            rates = gains / np.array([candidate.price for candidate in still])
            pick, granted = _best(still, gains, rates, money)
            if pick is None:
                break
            offer, rate = still[pick], float(rates[pick])
            if (end := self._better_spent(view, chances, offer, rate)) is not None:
                return list(bought) or [end]
            ranked = alternatives(chances, still, gains, rates, offer.configuration)
            figures = numbers(chances, offer, float(gains[pick]), rate)
            if offer.trial is None:
                return [*bought, self._proposal(view, chances, offer, money, (figures, ranked))]
            assert granted is not None, "an offer of a trial is picked with its grant"
            bought.append(advance(view, offer.trial, granted.to_step, reason(view, figures), figures, ranked))
            money -= granted.gpu_hours
            value.expect(open_places[pick])
            open_places = [place for place in open_places if offered[place].trial is not offer.trial]
        return list(bought)

    def _proposal(
        self,
        view: View,
        chances: Chances,
        offer: Offer,
        money: float,
        grounds: tuple[dict[str, Any], list[dict[str, Any]]],
    ) -> Propose:
        """Plan a trial of an open cell; a sampler of Optuna has the word where one was asked for."""
        cell, (n, B, axes) = offer.cell, offer.configuration
        name = named_configuration(offer.configuration)
        if cell is None:
            sentence = f"{name} is to be run with seed {offer.seed} as well"
        else:
            sentence = f"{name} has no trial yet"
            if self._search is not None or cell.learning_rates is not None:
                searched = propose_cell(view, chances, self._search or SEARCH, money)
                if searched is not None:
                    return searched
        figures, ranked = grounds
        return Propose(n, B, Why(f"{sentence}: {reason(view, figures)}", figures, ranked), axes, offer.seed)

    def _prunes(self, view: View, chances: Chances) -> list[Prune]:
        """Give up paused trials whose configuration has hardly a chance to be within 0.02 of the best."""
        limit = bar(ALPHA, len(chances.candidates))
        pruned: list[Prune] = []
        if chances.joint.unconverged > MOST_UNCONVERGED:  # nothing that cannot be taken back rests on such a fit
            return pruned
        for trial in view.trials.values():
            place = chances.place.get(trial.configuration)
            if trial.state is not TrialState.PAUSED or place is None or not has_curve(trial):
                continue
            if chances.near_at_most[place] < limit and place not in chances.protected and trial.step < trial.most_steps:
                pruned.append(Prune(trial.trial, why_pruned(view, chances, trial, place, limit)))
        return pruned

    def _better_spent(self, view: View, chances: Chances, offer: Offer, rate: float) -> Stop | None:
        """Stop when the rest of the money does more in the final run than the best segment does for the choice."""
        if not view.rest_to_final or view.gpu_hours_left <= 0:
            return None
        more = 1 + view.gpu_hours_left / view.target_gpu_hours
        row = chances.places[chances.leader]
        gained = float((chances.joint.at(more) - chances.joint.at_target)[:, row].mean())
        final_rate = gained / view.gpu_hours_left
        # A pilot of what becomes the final run goes on from its checkpoint: its GPU-hours are not lost.
        lost = 1.0 - float(chances.best[chances.place[offer.configuration]]) if offer.trial is not None else 1.0
        if rate >= final_rate * lost:
            return None
        leader = named_configuration(chances.candidates[chances.leader])
        return Stop(
            Why(
                f"the {hours(view.gpu_hours_left)} GPU-hours that no segment has reserved go to the final run: they "
                f"raise its score by {final_rate:.2g} per GPU-hour ({leader}), and more segments the choice by "
                f"{rate:.2g}",
                {
                    "final_gain_per_gpu_hour": final_rate,
                    "gain_per_gpu_hour": rate,
                    "gpu_hours_left": view.gpu_hours_left,
                },
            )
        )

    def _nothing_left(self, view: View, done: str = "no trial can be trained, and none has a curve") -> list[Action]:
        affordable = self._table.affordable(view.gpu_hours_left)
        waiting = self._table["ready"] if not affordable.any() else np.zeros(len(self._table), dtype=bool)
        return nothing_left(view, self._table, waiting, done)


def _best(offered: Sequence[Offer], gains: Vector, rates: Vector, money: float) -> tuple[int | None, Grant | None]:
    """Return the first of the best offers that the money pays for, and the grant where it is a trial's."""
    for pick in np.argsort(-rates, kind="stable"):
        offer = offered[int(pick)]
        if gains[pick] < LEAST_GAIN:
            continue
        if offer.trial is None:
            if offer.price * MARGIN > money:
                continue
            return int(pick), None
        granted = grant(offer.trial, offer.to_step, money)
        if granted is not None:
            return int(pick), granted
    return None, None
