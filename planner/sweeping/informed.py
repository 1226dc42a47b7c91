"""The policy `rlplan`: buys the segment that tells most about the choice per GPU-hour, and gives up what cannot win."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgets.errors import InputError
from planner.curves.curve import Vector
from planner.pooling.draws import Worlds
from planner.pooling.opening import Pool, has_curve
from planner.pooling.spread import spread_out
from planner.sweeping.actions import Action, Advance, Propose, Prune, Stop, Why
from planner.sweeping.advancing import MOST_ALTERNATIVES, at_end, hours, named, named_configuration, nothing_left
from planner.sweeping.beliefs import Beliefs
from planner.sweeping.grants import grant
from planner.sweeping.offers import Offer, first_goal, money_of, offers, pending
from planner.sweeping.pruning import ALPHA, bar
from planner.sweeping.search import check_sampler, propose_cell
from planner.sweeping.table import Table
from planner.sweeping.value import Value
from planner.sweeping.view import Configuration, TrialView, View
from planner.trials import TrialState

DRAWS = 300  # for a decision among segments; what is printed and recommended rests on more
NEAR = 0.02  # of the best: the same, for seeds differ by as much
LEAST_GAIN = 1e-6  # in score; less is nothing
FIRST_SHARE = 0.1  # of the money for the pilots before any curve is known
LEAST_FIRST = 0.04  # of the target
SEARCH = "tpe"


class InformedPolicy:
    """Decides from the joint belief of all curves at the target.

    It prunes what has hardly a chance to be within 0.02 of the best, advances what the expected score of the choice
    gains most by per GPU-hour, proposes cells of the plan that promise more than any trial, and stops when nothing is
    gained, or when the final run would lose more by the GPU-hours than the choice gains.
    """

    def __init__(
        self,
        *,
        alpha: float = ALPHA,
        search: str | None = None,
        pool: Pool | None = None,
        beliefs: Beliefs | None = None,
    ) -> None:
        if not 0 <= alpha < 0.5:
            raise InputError(f"alpha {alpha}: the chance below which trials are pruned lies in [0, 0.5), such as 0.02")
        if search is not None:
            check_sampler(search)
        self._alpha, self._search = alpha, search
        self._pool, self._beliefs = pool or Pool(), beliefs or Beliefs()
        self._table = Table()

    @property
    def name(self) -> str:
        """The name under which `--policy` knows it."""
        return "rlplan"

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        self._table.follow(view)
        closing = at_end(self._table, self._table["most"])
        if not any(has_curve(trial) for trial in view.trials.values()):
            return [*closing, *(self._first_pilots(view) or self._nothing_left(view))]
        if view.free_workers < 1:
            return closing
        worlds = self._pool.worlds(view, DRAWS)
        return [*closing, *self._next(view, worlds)]

    def _first_pilots(self, view: View) -> list[Action]:
        """Start one pilot for each free worker, spread over the configurations: nothing is known of any yet."""
        fresh: dict[Configuration, TrialView] = {}
        for trial in view.trials.values():
            if trial.ready and trial.configuration not in fresh:
                fresh[trial.configuration] = trial
        configurations = list(fresh)
        busy = sum(trial.state is TrialState.RUNNING for trial in view.trials.values())
        chosen = spread_out(configurations, busy + view.free_workers)[busy:]
        share = max(
            FIRST_SHARE * money_of(view) / max(1, busy + view.free_workers), LEAST_FIRST * view.target_gpu_hours
        )
        actions: list[Action] = []
        left = view.gpu_hours_left
        for place in chosen:
            trial = fresh[configurations[place]]
            granted = grant(trial, first_goal(trial, share), left)
            if granted is not None and len(actions) < view.free_workers:
                left -= granted.gpu_hours
                actions.append(_advance(view, trial, granted.to_step, _FIRST, {}, []))
        return actions

    def _next(self, view: View, worlds: Worlds) -> list[Action]:
        """Prune, and buy the best offers one after the other, each as if what was bought before were on its way."""
        standing = _Standing(view, worlds)
        pruned = self._prunes(view, standing)
        gone = {action.trial for action in pruned}
        money = money_of(view)
        offered = [each for each in offers(view, money) if each.trial is None or each.trial.trial not in gone]
        value = Value(worlds, standing.places)
        for running in pending(view, money):
            value.expect(running)
        bought: list[Action] = []
        left = view.gpu_hours_left
        while len(bought) < view.free_workers and offered:
            gains = value.gains(offered)
            rates = gains / np.array([each.price for each in offered])
            pick, granted = _best(offered, gains, rates, left)
            if pick is None:
                break
            offer, rate = offered[pick], float(rates[pick])
            if (end := self._better_spent(view, standing, offer, rate)) is not None:
                return [*pruned, *(bought or [end])]
            ranked = _alternatives(standing, offered, gains, rates, pick)
            numbers = _numbers(standing, offer, float(gains[pick]), rate)
            if offer.trial is None:
                return [*pruned, *bought, *self._proposal(view, offer, numbers, ranked)]
            bought.append(_advance(view, offer.trial, offer.to_step, _reason(view, numbers), numbers, ranked))
            left -= granted
            value.expect(offer)
            offered = [each for each in offered if each.trial is None or each.trial.trial != offer.trial.trial]
        return [*pruned, *(bought or self._nothing_left(view, standing))]

    def _proposal(
        self, view: View, offer: Offer, numbers: dict[str, Any], ranked: list[dict[str, Any]]
    ) -> list[Action]:
        """Plan a trial of an open cell; a sampler of Optuna has the word where one was asked for."""
        cell = offer.cell
        assert cell is not None, "an offer without a trial is of an open cell"
        if self._search is not None or cell.learning_rates is not None:
            searched = propose_cell(view, self._beliefs, self._search or SEARCH, self._alpha)
            if searched is not None:
                return [searched]
        reason = f"{named_configuration(offer.configuration)} has no trial yet: {_reason(view, numbers)}"
        n, B, axes = offer.configuration
        return [Propose(n, B, Why(reason, numbers, ranked), axes)]

    def _prunes(self, view: View, standing: "_Standing") -> list[Prune]:
        """Give up paused trials whose configuration has hardly a chance to be within 0.02 of the best."""
        limit = bar(self._alpha, len(standing.candidates))
        pruned = []
        for trial in view.trials.values():
            place = standing.place.get(trial.configuration)
            if trial.state is not TrialState.PAUSED or place is None or not has_curve(trial):
                continue
            if standing.near[place] < limit and place not in standing.protected and trial.step < trial.most_steps:
                pruned.append(Prune(trial.trial, _why_pruned(view, standing, trial, place, limit)))
        return pruned

    def _better_spent(self, view: View, standing: "_Standing", offer: Offer, rate: float) -> Stop | None:
        """Stop when the rest of the money does more in the final run than the best segment does for the choice."""
        if not view.rest_to_final or view.gpu_hours_left <= 0:
            return None
        more = 1 + view.gpu_hours_left / view.target_gpu_hours
        row = standing.places[standing.leader]
        gained = float(standing.worlds.at(more)[:, row].mean() - standing.mean[standing.leader])
        final_rate = gained / view.gpu_hours_left
        # A pilot of what becomes the final run goes on from its checkpoint: its GPU-hours are not lost.
        lost = 1.0 - float(standing.best[standing.place[offer.configuration]]) if offer.trial is not None else 1.0
        if rate >= final_rate * lost:
            return None
        leader = named_configuration(standing.candidates[standing.leader])
        return Stop(
            Why(
                f"the final run gains more by the {hours(view.gpu_hours_left)} GPU-hours that are left: {final_rate:.2g} in "
                f"score for each of them ({leader}), and no segment is expected to do more than {rate:.2g} for the choice",
                {
                    "final_gain_per_gpu_hour": final_rate,
                    "gain_per_gpu_hour": rate,
                    "gpu_hours_left": view.gpu_hours_left,
                },
            )
        )

    def _nothing_left(self, view: View, standing: "_Standing | None" = None) -> list[Action]:
        done = "no trial can be trained, and none has a curve" if standing is None else _nothing_to_gain(view, standing)
        affordable = self._table.affordable(view.gpu_hours_left)
        wanted = self._table["ready"] if not affordable.any() else np.zeros(len(self._table), dtype=bool)
        return nothing_left(view, self._table, wanted, done)


class _Standing:
    """What the draws say of the configurations that can be chosen: those with a trial that has not failed, or none."""

    def __init__(self, view: View, worlds: Worlds) -> None:
        self.worlds = worlds
        states: dict[Configuration, list[TrialState]] = {}
        for trial in view.trials.values():
            states.setdefault(trial.configuration, []).append(trial.state)
        out = {TrialState.FAILED, TrialState.PRUNED}
        alive = [each for each in worlds.configurations if not states.get(each) or not out.issuperset(states[each])]
        self.candidates = alive or list(worlds.configurations)
        self.place = {configuration: index for index, configuration in enumerate(self.candidates)}
        self.places: NDArray[np.intp] = np.array(
            [row for row, each in enumerate(worlds.configurations) if each in self.place], dtype=np.intp
        )
        scores = worlds.at(1.0)[:, self.places]
        highest = scores.max(axis=1, keepdims=True)
        self.mean: Vector = scores.mean(axis=0)
        self.low, self.median, self.high = np.quantile(scores, (0.05, 0.5, 0.95), axis=0)
        self.best: Vector = np.bincount(scores.argmax(axis=1), minlength=len(self.candidates)) / len(scores)
        self.near: Vector = (scores >= highest - NEAR).mean(axis=0)
        self.leader = int(np.argmax(self.mean))
        order = np.argsort(-self.mean, kind="stable")
        self.protected = {int(place) for place in (*order[:2], int(np.argmax(self.best)))}

    def figures(self, place: int) -> dict[str, float]:
        """Return what is stored with a decision about a configuration."""
        return {
            "probability_best": float(self.best[place]),
            "probability_near_best": float(self.near[place]),
            "median": float(self.median[place]),
            "low": float(self.low[place]),
            "high": float(self.high[place]),
        }


_FIRST = "nothing is known of any configuration yet, and this one is among those that lie in the midst of the others"


def _best(offered: Sequence[Offer], gains: Vector, rates: Vector, left: float) -> tuple[int | None, float]:
    """Return the first of the best offers that the money pays for, and what is set aside for it."""
    for pick in np.argsort(-rates, kind="stable"):
        offer = offered[int(pick)]
        if gains[pick] < LEAST_GAIN:
            break
        if offer.trial is None:
            return int(pick), offer.price
        granted = grant(offer.trial, offer.to_step, left)
        if granted is not None:
            return int(pick), granted.gpu_hours
    return None, 0.0


def _advance(
    view: View, trial: TrialView, to_step: int, reason: str, numbers: dict[str, Any], ranked: list[dict[str, Any]]
) -> Advance:
    price = trial.price(to_step)
    moves = "starts, up to" if trial.step == 0 else f"goes on from step {trial.step:,} to"
    spent = f"for {hours(price)} of the {hours(view.gpu_hours_left)} GPU-hours left"
    seen = {"step": trial.step, "price_gpu_hours": price, "gpu_hours_left": view.gpu_hours_left, **numbers}
    return Advance(
        trial.trial, to_step, Why(f"{named(trial)} {moves} step {to_step:,} {spent}: {reason}", seen, ranked)
    )


def _numbers(standing: _Standing, offer: Offer, gain: float, rate: float) -> dict[str, Any]:
    return {
        **standing.figures(standing.place[offer.configuration]),
        "expected_gain": gain,
        "gain_per_gpu_hour": rate,
    }


def _reason(view: View, numbers: dict[str, Any]) -> str:
    return (
        f"what it shows is expected to raise the score of the choice by {numbers['expected_gain']:.2g}; at "
        f"{hours(view.target_gpu_hours)} GPU-hours it is predicted {numbers['median']:.2f} ({numbers['low']:.2f} to "
        f"{numbers['high']:.2f}) and P(best) is {numbers['probability_best']:.2g}"
    )


def _alternatives(
    standing: _Standing, offered: Sequence[Offer], gains: Vector, rates: Vector, pick: int
) -> list[dict[str, Any]]:
    """Return the next best offers, one of each configuration."""
    named_already = {offered[pick].configuration}
    found: list[dict[str, Any]] = []
    for place in np.argsort(-rates, kind="stable"):
        offer = offered[int(place)]
        if offer.configuration in named_already:
            continue
        named_already.add(offer.configuration)
        what = {"trial": offer.trial.trial, "name": offer.trial.name} if offer.trial is not None else {}
        found.append(
            {
                "action": "propose" if offer.trial is None else "advance",
                "configuration": named_configuration(offer.configuration),
                **what,
                "to_step": offer.to_step,
                "price_gpu_hours": offer.price,
                **_numbers(standing, offer, float(gains[place]), float(rates[place])),
            }
        )
        if len(found) == MOST_ALTERNATIVES:
            break
    return found


def _why_pruned(view: View, standing: _Standing, trial: TrialView, place: int, limit: float) -> Why:
    leader = standing.leader
    told, told_best = (
        f"{standing.median[each]:.2f} ({standing.low[each]:.2f} to {standing.high[each]:.2f})"
        for each in (place, leader)
    )
    best = named_configuration(standing.candidates[leader])
    weakest = [int(each) for each in np.argsort(standing.near, kind="stable") if each != place][:MOST_ALTERNATIVES]
    return Why(
        f"P({named(trial)} is within {NEAR:g} of the best at {hours(view.target_gpu_hours)} GPU-hours) is "
        f"{standing.near[place]:.2g}, below {limit:.2g}; {best} is predicted {told_best} against {told}",
        {
            "limit": limit,
            "target_gpu_hours": view.target_gpu_hours,
            **standing.figures(place),
            **{f"leader_{name}": figure for name, figure in standing.figures(leader).items()},
        },
        [
            {
                "action": "prune",
                "configuration": named_configuration(standing.candidates[each]),
                **standing.figures(each),
            }
            for each in weakest
        ],
    )


def _nothing_to_gain(view: View, standing: _Standing) -> str:
    leader = standing.leader
    return (
        f"nothing can be gained by what could still be trained; P({named_configuration(standing.candidates[leader])} is "
        f"best at {hours(view.target_gpu_hours)} GPU-hours) is {standing.best[leader]:.3f}, within {NEAR:g} of it "
        f"{standing.near[leader]:.3f}"
    )
