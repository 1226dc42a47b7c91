"""Stores what is believed: a fit after every segment, and in the end the ranked allocations with the recommendation."""

import time
from dataclasses import asdict
from functools import partial

from planner.store.records import NewFit, NewRanking, NewRecommendation
from planner.store.results import record_fit, save_recommendation
from planner.sweeping.beliefs import LEVEL, Beliefs
from planner.sweeping.recommendation import CellFacts, RankedCell, recommend
from planner.sweeping.view import Cell
from runner.sweep.board import Board
from runner.sweep.executor import Clock
from runner.sweep.journal import Journal
from runner.sweep.spec import SweepSpec

MODEL = "sigmoid, each curve by itself"


class Conclusions:
    """Turns beliefs into rows."""

    def __init__(self, beliefs: Beliefs, spec: SweepSpec) -> None:
        """Conclude from the same beliefs that the policy decides on."""
        self._beliefs, self._spec = beliefs, spec
        self._fitted: dict[int, int] = {}  # how many scores of a trial its last stored fit rests on

    def fits(self, board: Board, journal: Journal, clock: Clock) -> None:
        """Store a fit of every trial that has new scores and is not being trained right now."""
        running = {segment.trial for segment in board.running.values()}
        due = [trial for trial in board.fresh - running if self._fitted.get(trial, 0) < len(board.trials[trial].scores)]
        if not due:
            return
        began = time.perf_counter()
        beliefs = self._beliefs.of(board.view(0))
        seen = [trial for trial in due if trial in beliefs]
        self._beliefs.explain([board.trials[trial] for trial in seen])  # all in one go, which is much faster
        known = {trial: beliefs[trial] for trial in seen}
        took = 1000 * (time.perf_counter() - began) / max(1, len(known))
        for trial, belief in known.items():
            fit = NewFit(
                trial_id=trial,
                made_at=clock.now(),
                model=MODEL,
                verdict=belief.verdict,
                upto_gpu_hours=belief.upto_gpu_hours,
                target_gpu_hours=self._spec.target_gpu_hours,
                parameters=dict(belief.parameters),
                predicted_mean=belief.median,
                predicted_low=belief.low,
                predicted_high=belief.high,
                level=LEVEL,
                fit_milliseconds=took,
                probability_best=belief.probability_best,
            )
            journal.add(partial(record_fit, fit=fit))
            self._fitted[trial] = len(board.trials[trial].scores)
        board.fresh -= set(due)

    def recommend(self, board: Board, journal: Journal, clock: Clock) -> None:
        """Store the ranked allocations and the recommended one; nothing when no trial got beyond the base model."""
        if not any(trial.step for trial in board.trials.values()):
            return
        facts = {
            (each.rollouts_per_prompt, each.prompts_per_batch): CellFacts(
                each.learning_rate, self._spec.training.recipe.name, board.price(each)
            )
            for each in board.candidates()
        }
        ranked = recommend(board.view(0), self._beliefs, self._spec.target_gpu_hours, facts)
        chosen = ranked.chosen
        if chosen is None:
            return
        row = NewRecommendation(
            made_at=clock.now(),
            rollouts_per_prompt=chosen.rollouts_per_prompt,
            prompts_per_batch=chosen.prompts_per_batch,
            update_steps=chosen.update_steps,
            learning_rate=chosen.learning_rate,
            recipe=chosen.recipe,
            expected_score=_known(chosen.expected_score),
            score_low=_known(chosen.score_low),
            score_high=_known(chosen.score_high),
            probability_best=chosen.probability_best or 0.0,
            expected_regret=ranked.expected_regret or 0.0,
            gpu_hours_to_target=chosen.gpu_hours_to_target,
            details={"reason": ranked.reason, "equivalent": [list(_cell(each)) for each in ranked.equivalent]},
        )
        rows = [NewRanking(**asdict(each)) for each in ranked.cells]
        sweep = board.sweep
        journal.add(lambda session: save_recommendation(session, sweep, row, rows))


def _cell(ranked: RankedCell) -> Cell:
    return ranked.rollouts_per_prompt, ranked.prompts_per_batch


def _known(score: float | None) -> float:
    """Return a score that a chosen cell always has."""
    assert score is not None
    return score
