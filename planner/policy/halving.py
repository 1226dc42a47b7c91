"""Asynchronous successive halving over rungs: ASHA, and Hyperband, whose brackets begin at different ones.

A trial at rung k has trained η^k segments. It is promoted when its score is among the best ⌊m/η⌋ of the m that have
reached the rung; when none can be promoted, a new trial starts. Rungs go on beyond the pilot, up to the final run's
length. (Li et al. 2018, "A System for Massively Parallel Hyperparameter Tuning", and JMLR 18(185).)
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.policy.actions import Action
from planner.policy.table import TrialTable, advances, at_end, nothing_left
from planner.view import TrialView, View

REDUCTION = 3
MOST_RUNGS = 24
NO_SCORE = -1.0  # worse than any: it has come as far and was never scored


@dataclass(frozen=True, slots=True)
class _Candidate:
    row: int
    rung: int
    place: int  # among those that reached the rung, 0 being the best
    reached: int


class SuccessiveHalving(ABC):
    """Decides by rungs; each trial begins at its bracket's rung, and is compared within its bracket."""

    name: str

    def __init__(self) -> None:
        self._table = TrialTable()
        self._scores = np.zeros((0, MOST_RUNGS))  # at each rung, NaN where it was not reached
        self._level = np.zeros(0, dtype=int)  # the highest rung reached, −1 for none

    @abstractmethod
    def _brackets(self, view: View) -> NDArray[np.intp]:
        """Return the bracket of each trial, which is the rung at which it begins."""

    def decide(self, view: View) -> Sequence[Action]:
        """Return what to do now."""
        bracket = self._brackets(view)
        changed = self._table.follow(view)
        if (size := len(self._table)) > len(self._scores):
            more = 2 * size - len(self._scores)
            self._scores = np.vstack([self._scores, np.full((more, MOST_RUNGS), np.nan)])
            self._level = np.append(self._level, np.full(more, -1))
        for row in changed:
            self._scores[row] = self._scores_at_rungs(self._table.trials[row])
            self._level[row] = int((~np.isnan(self._scores[row])).sum()) - 1
        table, level = self._table, self._level[: len(self._table)]
        ready = table["ready"]
        open_ = ready & table.affordable(view.gpu_hours_left)
        between = open_ & (table["step"] > 0) & ((level < bracket) | (table["step"] > self._steps(level)))
        promoted = self._promotable(bracket, open_)
        new = open_ & (table["step"] == 0)
        candidates = {one.row: one for one in promoted}
        rows = [*np.flatnonzero(between).tolist(), *candidates, *np.flatnonzero(new).tolist()]
        if not rows and not table.waiting:
            # No rule promotes any more and there is money: the highest rung's best go on first.
            candidates = {one.row: one for one in self._promotable(bracket, open_, all_of_them=True)}
            rows = list(candidates)

        def goal(row: int) -> int:
            trial = table.trials[row]
            return self._rung_step(trial, max(int(level[row]) + 1, int(bracket[row])))

        def reason(row: int, _to_step: int) -> tuple[str, dict[str, Any]]:
            return self._reason(row, candidates.get(row), int(bracket[row]), not promoted)

        actions = advances(view, table, rows, goal, reason)
        done = "every trial that can be trained has reached the length of the final run"
        return [*at_end(table, table["most"]), *(actions or nothing_left(view, table, ready, done))]

    def _rung_step(self, trial: TrialView, rung: int) -> int:
        return int(min(trial.segment_steps * REDUCTION**rung, trial.most_steps))

    def _steps(self, level: NDArray[np.intp]) -> NDArray[Any]:
        table = self._table
        of_rung = table["segment"] * float(REDUCTION) ** np.maximum(level, 0)
        return np.where(level < 0, 0.0, np.minimum(of_rung, table["most"]))

    def _scores_at_rungs(self, trial: TrialView) -> NDArray[np.float64]:
        """Return the last score up to each rung that the trial has reached; no rung lies beyond the whole length."""
        scores, before = np.full(MOST_RUNGS, np.nan), 0
        for rung in range(MOST_RUNGS):
            step = self._rung_step(trial, rung)
            if step > trial.step or step == before:
                break
            scores[rung] = next((point.score for point in reversed(trial.scores) if point.step <= step), NO_SCORE)
            before = step
        return scores

    def _promotable(
        self, bracket: NDArray[np.intp], open_: NDArray[np.bool_], *, all_of_them: bool = False
    ) -> list[_Candidate]:
        """Return those that are among the best of the rung at which they stand, the highest rung's best first."""
        level = self._level[: len(self._table)]
        standing = open_ & (self._table["step"] == self._steps(level))
        result = []
        for rung in range(MOST_RUNGS - 1, -1, -1):
            at_rung, scores = standing & (level == rung), self._scores[: len(self._table), rung]
            for number in np.unique(bracket[at_rung & (bracket <= rung)]):
                reached = np.flatnonzero((bracket == number) & ~np.isnan(scores))
                ranked = reached[np.argsort(-scores[reached], kind="stable")]
                best = ranked if all_of_them else ranked[: len(reached) // REDUCTION]
                places = [(place, int(row)) for place, row in enumerate(best) if at_rung[row]]
                result += [_Candidate(row, rung, place, len(reached)) for place, row in places]
        return result

    def _reason(
        self, row: int, candidate: _Candidate | None, bracket: int, left_over: bool
    ) -> tuple[str, dict[str, Any]]:
        if candidate is None:
            trial = self._table.trials[row]
            numbers: dict[str, Any] = {"bracket": bracket, "rung": int(self._level[row])}
            if trial.step:
                return "it was cut short on its way to the next rung", numbers
            return f"no trial can be promoted, so that a new one begins at rung {bracket}", numbers
        score = float(self._scores[row, candidate.rung])
        numbers = {
            "bracket": bracket,
            "rung": candidate.rung,
            "score": score,
            "place": candidate.place + 1,
            "reached": candidate.reached,
            "promoted_of_these": candidate.reached // REDUCTION,
        }
        place = f"its score {score:.3f} is number {candidate.place + 1} of the {candidate.reached} that reached"
        if left_over:
            return f"no rule promotes any more and money is left; {place} rung {candidate.rung}, the highest", numbers
        return f"{place} rung {candidate.rung}, of which the best {candidate.reached // REDUCTION} go on", numbers


class Asha(SuccessiveHalving):
    """A single bracket: promotes the best of each rung to η times as many segments, and starts new trials else."""

    name = "asha"

    def _brackets(self, view: View) -> NDArray[np.intp]:
        return np.zeros(len(view.trials), dtype=np.intp)


class Hyperband(SuccessiveHalving):
    """Hedges between many short trials and few long ones: trials are dealt to brackets that begin at different rungs.

    Of s_max + 1 brackets, one per rung within a pilot, the one that begins at rung b is dealt a share of
    ⌈(s_max + 1) / (s + 1) · η^s⌉ trials, s = s_max − b, as published. They run asynchronously.
    """

    name = "hyperband"

    def _brackets(self, view: View) -> NDArray[np.intp]:
        """Deal the trials in planned order; the first one's pilot says how many rungs there are."""
        if not view.trials:
            return np.zeros(0, dtype=np.intp)
        first = next(iter(view.trials.values()))
        segments = max(1, min(first.pilot_steps, first.most_steps) // first.segment_steps)
        return dealt(len(view.trials), int(math.log(segments, REDUCTION) + 1e-9))


def dealt(trials: int, last: int) -> NDArray[np.intp]:
    """Return each trial's bracket, so that after any number of trials the shares are as near as can be."""
    shares = [math.ceil((last + 1) / (longer + 1) * REDUCTION**longer) for longer in range(last, -1, -1)]
    turns = [((place + 0.5) / share, bracket) for bracket, share in enumerate(shares) for place in range(share)]
    return np.resize(np.array([bracket for _, bracket in sorted(turns)], dtype=np.intp), trials)
