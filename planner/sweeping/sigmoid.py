"""The policy `rlplan`: gives up what cannot win, and spends each GPU-hour where the choice gains most by it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgets.errors import InputError
from planner.sweeping.actions import Action, Advance, Propose, Prune, Stop, Why
from planner.sweeping.advancing import advances, at_end, hours, named, nothing_left
from planner.sweeping.beliefs import Beliefs, Standing
from planner.sweeping.gain import Gains, gain_of_starting, gains_of_going_on
from planner.sweeping.grants import MARGIN
from planner.sweeping.pruning import ALPHA, Front, prunes
from planner.sweeping.region import may_propose, open_in, possible_region
from planner.sweeping.search import SAMPLERS, check_sampler, propose_cell
from planner.sweeping.table import next_boundary
from planner.sweeping.view import View

SURE = 0.99  # P(best) of the leader from which on more training is not expected to change the choice
LEAST_GAIN = 1e-6  # in score; less is nothing


class SigmoidPolicy:
    """Prunes by P(best at the target), goes on by expected gain per GPU-hour, and proposes cells that promise more.

    Every planned trial gets its first segment before any gets its second: nothing can be said of what was never seen.
    """

    def __init__(self, *, alpha: float = ALPHA, search: str | None = "tpe", beliefs: Beliefs | None = None) -> None:
        if not 0 <= alpha < 0.5:
            raise InputError(f"alpha {alpha}: the P(best) below which trials are pruned lies in [0, 0.5), such as 0.02")
        if search is not None:
            check_sampler(search)
        self._alpha, self._search = alpha, search
        self._beliefs = beliefs or Beliefs()

    @property
    def name(self) -> str:
        """The name under which `--policy` knows it."""
        return "rlplan"

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        standing = self._beliefs.standing(view)
        table, front = standing.table, Front.of(standing)
        closing = at_end(table, table["most"])
        if (end := _decided(view, standing, front)) is not None:
            return [*closing, end]
        given_up = prunes(view, self._beliefs, standing, front, self._alpha)
        if view.free_workers < 1:
            return [*closing, *given_up]
        wanted = table["ready"].copy()
        wanted[[table.row_of[action.trial] for action in given_up if isinstance(action, Prune)]] = False
        return [*closing, *given_up, *self._going_on(view, standing, front, wanted)]

    def _going_on(self, view: View, standing: Standing, front: Front, wanted: NDArray[np.bool_]) -> Sequence[Action]:
        """Return the best segments for the free workers, a fresh pilot where that is worth more, or the end."""
        table = standing.table
        gains = gains_of_going_on(view, standing, front.rivals(standing))
        worthwhile = wanted & (~standing.seen | (gains.gain >= LEAST_GAIN))
        affordable = worthwhile & table.affordable(view.gpu_hours_left)
        first = np.flatnonzero(affordable & ~standing.seen)
        later = np.flatnonzero(affordable & standing.seen)
        later = later[np.argsort(-gains.rate[later], kind="stable")]
        fresh = self._fresh_rate(view, standing, front) if len(first) < view.free_workers else 0.0
        better = later[gains.rate[later] >= fresh]

        def train(rows: NDArray[np.intp]) -> list[Advance]:
            return advances(
                view,
                table,
                [*first.tolist(), *rows.tolist()],
                lambda row: next_boundary(table.trials[row]),
                lambda row, _to: _reason(view, standing, gains, row),
                lambda row: _figures(standing, gains, row),
            )

        taken = train(better)
        if fresh > 0 and len(taken) < view.free_workers:
            money = view.gpu_hours_left - MARGIN * sum(_price(view, advance) for advance in taken)
            if (proposal := self._proposal(view, fresh, gains, later, money)) is not None:
                return [*taken, proposal]
            taken = train(later)
        return taken or nothing_left(view, table, worthwhile, _nothing_to_gain(view, standing, front))

    def _fresh_rate(self, view: View, standing: Standing, front: Front) -> float:
        """Return the highest gain per GPU-hour of a fresh pilot in the region that is still possible, 0 for none."""
        if self._search is None or front.leader is None or not view.open_cells or not may_propose(standing.table):
            return 0.0
        region = possible_region(standing, self._alpha)
        cells = open_in(region, view, view.gpu_hours_left) if region else []
        worth = (gain_of_starting(cell, standing, front.leader_mean, view.target_gpu_hours) for cell in cells)
        return max((rate for gain, rate in worth if gain >= LEAST_GAIN), default=0.0)

    def _proposal(
        self, view: View, fresh: float, gains: Gains, later: NDArray[np.intp], money: float
    ) -> Propose | None:
        proposal = propose_cell(view, self._beliefs, self._search or SAMPLERS[0], self._alpha, money)
        if proposal is None:
            return None
        rest = float(gains.rate[later].max(initial=0.0))
        going_on = (
            f"the best segment that is left promises {rest:.2g}" if rest else "no segment is left that promises any"
        )
        why = proposal.why
        reason = f"a fresh pilot promises {fresh:.2g} in score per GPU-hour, {going_on}; {why.reason}"
        seen = {**why.seen, "gain_per_gpu_hour": fresh, "best_other_gain_per_gpu_hour": rest}
        return replace(proposal, why=replace(why, reason=reason, seen=seen))


def _decided(view: View, standing: Standing, front: Front) -> Stop | None:
    """Stop when the leader is as good as certain; with nothing to compare it with, only if no cell is open either."""
    if front.leader is None:
        return None
    rivals = int(np.isfinite(standing.configuration_means).sum()) + standing.outcome.unseen - 1
    probability = float(standing.probability_best[front.leader])
    if probability <= SURE or (rivals < 1 and view.open_cells):
        return None
    trial = standing.table.trials[front.leader]
    reason = (
        f"nothing can be gained by more training: P({named(trial)} is best at {hours(view.target_gpu_hours)} "
        f"GPU-hours) is {probability:.4f}, above {SURE:g}; {hours(view.gpu_hours_left)} GPU-hours are left"
    )
    seen = {"trial": trial.trial, "gpu_hours_left": view.gpu_hours_left, **_belief(standing, front.leader)}
    return Stop(Why(reason, seen))


def _nothing_to_gain(view: View, standing: Standing, front: Front) -> str:
    if front.leader is None:
        return "no trial can be trained, and none has a curve"
    probability = float(standing.probability_best[front.leader])
    return (
        f"nothing can be gained by what could still be trained; P({named(standing.table.trials[front.leader])} is best "
        f"at {hours(view.target_gpu_hours)} GPU-hours) is {probability:.3f}"
    )


def _reason(view: View, standing: Standing, gains: Gains, row: int) -> tuple[str, dict[str, Any]]:
    if not standing.seen[row]:
        return "it has no curve yet, and every trial gets its first segment before others go on", {}
    figures = _figures(standing, gains, row)
    sentence = (
        f"{gains.gain[row]:.2g} in score is expected to be gained for {hours(float(gains.price[row]))} GPU-hours of "
        f"it; at {hours(view.target_gpu_hours)} it is predicted {standing.median[row]:.2f} ({standing.low[row]:.2f} to "
        f"{standing.high[row]:.2f}) and P(best) is {figures['probability_best']:.2g}"
    )
    return sentence, figures


def _figures(standing: Standing, gains: Gains, row: int) -> dict[str, Any]:
    if not standing.seen[row]:
        return {}
    return {
        **_belief(standing, row),
        "expected_gain": float(gains.gain[row]),
        "gain_gpu_hours": float(gains.price[row]),
        "gain_per_gpu_hour": float(gains.rate[row]),
    }


def _belief(standing: Standing, row: int) -> dict[str, float]:
    return {
        "probability_best": float(standing.probability_best[row]),
        "median": float(standing.median[row]),
        "low": float(standing.low[row]),
        "high": float(standing.high[row]),
    }


def _price(view: View, advance: Advance) -> float:
    return view.trials[advance.trial].price(advance.to_step)
