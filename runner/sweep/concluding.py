"""Stores what is believed: a fit after every segment, and the answer: so far while a sweep runs, and in the end."""

import time
from dataclasses import asdict
from typing import Any

from budgets.errors import BudgetError, NotFoundError
from planner.belief.pool import DRAWS as FEWER_DRAWS
from planner.belief.pool import Pool
from planner.metrics import INTERVAL_LEVEL
from planner.policy.chances import beliefs_of
from planner.recommend.answer import FinalAnswer, answer_data
from planner.recommend.prospect import DRAWS
from planner.store.results import SO_FAR, RankedRow, save_recommendation
from planner.store.schema import Fit, Recommendation
from planner.view import has_curve
from runner.sweep.answering import answer_of
from runner.sweep.board import Board
from runner.sweep.journal import Journal

MODEL = "sigmoids, all curves together"
# What a recommendation and a row of the ranked list have of a choice.
CHOSEN = (
    *("rollouts_per_prompt", "prompts_per_batch", "axes", "update_steps", "learning_rate", "recipe"),
    *("expected_score", "score_low", "score_high", "probability_best"),
)
GROWTH = 0.5  # of the scores that the answer so far rests on: with so many more it is worked out anew


class Conclusions:
    """Turns beliefs into rows."""

    def __init__(self, pool: Pool, board: Board, journal: Journal, *, growth: float = GROWTH) -> None:
        """Conclude from the same worlds that the policy decides on."""
        self._pool, self._growth = pool, growth
        self._board, self._journal = board, journal
        self._fitted: dict[int, int] = {}  # how many scores of a trial its last stored fit rests on
        self._known = 0  # scores that the stored fits rest on
        self._answered_on = 0  # so many of them, when the answer was last stored

    def fits(self) -> None:
        """Store a fit of every trial that has new scores and is not being trained right now."""
        board = self._board
        running = {segment.trial for segment in board.running.values()}
        due = [trial for trial in board.fresh - running if self._fitted.get(trial, 0) < len(board.trials[trial].scores)]
        trials = [board.trials[trial] for trial in due if has_curve(board.trials[trial])]
        began = time.perf_counter()
        known = beliefs_of(self._pool.joint_draws(board.view(0)), trials) if trials else {}
        board.fresh -= set(due)  # what could not be fitted is tried again in the next turn
        if not trials:
            return
        took = 1000 * (time.perf_counter() - began) / len(known)
        for trial, belief in known.items():
            self._journal.add_row(
                Fit,
                trial_id=trial,
                made_at=self._journal.clock.now(),
                model=MODEL,
                verdict=belief.verdict,
                upto_gpu_hours=belief.upto_gpu_hours,
                target_gpu_hours=board.spec.target_gpu_hours,
                parameters={name: asdict(each) for name, each in belief.parameters.items()},
                predicted_mean=belief.score.median,
                predicted_low=belief.score.low,
                predicted_high=belief.score.high,
                level=INTERVAL_LEVEL,
                fit_milliseconds=took,
                probability_best=belief.probability_best,
            )
            scores = len(board.trials[trial].scores)
            self._known += scores - self._fitted.get(trial, 0)
            self._fitted[trial] = scores

    def so_far(self) -> None:
        """Store the answer as it stands, once there is clearly more to rest it on than when it was last stored.

        Every face of a sweep that runs shows this one: what each would work out by itself would be of another moment.
        """
        if self._known and self._known >= (1 + self._growth) * self._answered_on:
            self._answered_on = self._known
            self.recommend(so_far=True)

    def recommend(self, *, so_far: bool = False) -> None:
        """Store the ranked allocations and the recommended one; nothing when no trial got beyond the base model."""
        board, journal = self._board, self._journal
        board.reprice()
        try:
            draws = FEWER_DRAWS if so_far else DRAWS
            found = answer_of(board, pool=self._pool, draws=draws)
        except (NotFoundError, BudgetError):
            return
        chosen = found.chosen
        row: dict[str, Any] = {
            "made_at": journal.clock.now(),
            "expected_regret": chosen.expected_regret,
            "gpu_hours_to_target": chosen.gpu_hours,
            "details": details(found) | ({SO_FAR: True} if so_far else {}),
            **{name: getattr(chosen, name) for name in CHOSEN},
        }
        rows = rankings(found)
        sweep = board.sweep
        journal.add(lambda session: save_recommendation(session, sweep, Recommendation(**row), rows))


def details(found: FinalAnswer) -> dict[str, Any]:
    """Return what a stored recommendation has beside its columns: the reason, and the whole answer as data."""
    reason = " ".join([found.how_sure, *([f"{found.runner_up.sentence}."] if found.runner_up else [])])
    return {"reason": reason, **answer_data(found)}


def rankings(found: FinalAnswer) -> list[RankedRow]:
    """Return the ranked list of an answer: what can be run, the chosen one first, and then what cannot.

    That has no score: it has failed, or is too dear for one update.
    """
    ranked = [
        RankedRow(
            rank=rank,
            gpu_hours_to_target=each.gpu_hours,
            gpu_hours_spent=each.gpu_hours_spent,
            status=each.status,
            **{name: getattr(each, name) for name in CHOSEN},
        )
        for rank, each in enumerate(found.ranked, start=1)
    ]
    left_out = [
        RankedRow(
            rank=rank,
            rollouts_per_prompt=each.rollouts_per_prompt,
            prompts_per_batch=each.prompts_per_batch,
            update_steps=(steps := known.steps(found.target_gpu_hours)),
            learning_rate=known.learning_rate,
            recipe=known.recipe,
            gpu_hours_spent=known.gpu_hours_spent,
            gpu_hours_to_target=steps * known.gpu_hours_per_step,
            status=known.status,
            axes=each.axes,
        )
        for rank, (each, known) in enumerate(found.left_out.items(), start=len(ranked) + 1)
    ]
    return [*ranked, *left_out]
