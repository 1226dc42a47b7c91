"""The picture of a sweep as plain data, for JSON and CSV."""

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from planner.view import Axes, Seen
from rlplan.reading.sweep_picture import Money, Picture, StoredAnswer, TrialRow
from rlplan.wording.answers import plain

if TYPE_CHECKING:
    from rlplan.reading.story import Beliefs, Story

_TRIAL: dict[str, Callable[[TrialRow], Any]] = {
    "trial": lambda trial: trial.name,
    "rollouts_per_prompt": lambda trial: trial.rollouts_per_prompt,
    "prompts_per_batch": lambda trial: trial.prompts_per_batch,
    "learning_rate": lambda trial: trial.learning_rate,
    "seed": lambda trial: trial.seed,
    "state": lambda trial: trial.state.value,
    "attempt": lambda trial: trial.attempt,
    "step": lambda trial: trial.step,
    "pilot_steps": lambda trial: trial.pilot_steps,
    "gpu_hours_spent": lambda trial: trial.gpu_hours_spent,
    "score": lambda trial: trial.last and trial.last.score,
    "score_standard_error": lambda trial: trial.last and trial.last.standard_error,
    "expected_score": lambda trial: trial.forecast and trial.forecast.mean,
    "score_low": lambda trial: trial.forecast and trial.forecast.low,
    "score_high": lambda trial: trial.forecast and trial.forecast.high,
    "probability_best": lambda trial: trial.forecast and trial.forecast.probability_best,
    "failure_class": lambda trial: trial.failure_class,
}
UNLISTED = ("ranking", "axes")  # of an answer's fields
SCORE_COLUMNS = ("step", "gpu_hours", "score", "score_standard_error")


def sweep_data(picture: Picture) -> dict[str, Any]:
    """Return the document that `sweep` and `status` print as JSON."""
    return {
        "sweep": picture.sweep,
        "plan": picture.plan,
        "status": picture.status.value,
        "policy": picture.policy,
        "seed": picture.seed,
        "metric": picture.metric,
        "budget": budget_data(picture.money),
        "elapsed_seconds": picture.elapsed_seconds,
        "seconds_left_at_most": picture.seconds_left,
        "driver": plain(picture.driver),
        "paused_since": plain(picture.paused_since),
        "hold": plain(picture.hold),
        "recommendation": None if picture.answer is None else answer_data(picture.answer),
        "ranking": plain(picture.answer.ranking) if picture.answer else [],
        "trials": [trial_data(trial) for trial in picture.trials],
        "decisions": picture.decisions,
        "last_decisions": [each.told() for each in picture.last_decisions],
        "learnt_from": plain(picture.learnt_from),
        "stored_at": picture.config.get("storage"),
        "failures": {kind: len(trials) for kind, trials in picture.failures.items()},
    }


def budget_data(money: Money) -> dict[str, Any]:
    """Return where the pilots' GPU-hours are; spent is the sum of all in `by_use`."""
    return {
        "pilot_gpu_hours": money.pilot_gpu_hours,
        "spent_gpu_hours": money.spent,
        "reserved_gpu_hours": money.reserved,
        "used_of_reserved_gpu_hours": money.used_of_reserved,
        "left_gpu_hours": money.left,
        "overrun_gpu_hours": money.overrun,
        "by_use": uses(money),
        "start_ups": money.start_ups,
        "start_up_gpu_hours": money.in_start_ups,
    }


def uses(money: Money) -> dict[str, float]:
    """Return GPU-hours by what they went to; what segments and charges call alike is added up."""
    used = {str(outcome): gpu_hours for outcome, gpu_hours in money.by_outcome.items()}
    for kind, gpu_hours in money.by_charge.items():
        used[kind] = used.get(kind, 0.0) + gpu_hours
    return dict(sorted(used.items(), key=lambda item: -item[1]))


def answer_data(answer: StoredAnswer) -> dict[str, Any]:
    """Return a recommendation without the list it rests on."""
    values = {each.name: plain(getattr(answer, each.name)) for each in fields(answer) if each.name not in UNLISTED}
    return values | {"so_far": answer.so_far} | axes_data(answer.axes)


def axes_data(axes: Axes) -> dict[str, Any]:
    """Return axes as an object under their key, and nothing where there are none."""
    return {"axes": dict(axes)} if axes else {}


def trial_row(trial: TrialRow) -> dict[str, Any]:
    """Return one trial as a flat row."""
    return {name: of(trial) for name, of in _TRIAL.items()}


def trial_data(trial: TrialRow) -> dict[str, Any]:
    """Return one trial with its curve."""
    forecast = trial.forecast
    return {
        **trial_row(trial),
        **axes_data(trial.axes),
        "verdict": forecast.verdict if forecast else None,
        "level": forecast.level if forecast else None,
        "target_gpu_hours": forecast.target_gpu_hours if forecast else None,
        "expected_at": plain(forecast.at) if forecast else None,
        "failure_tail": trial.failure_tail,
        "points": [score_row(score) for score in trial.scores],
    }


def score_row(score: Seen) -> dict[str, Any]:
    """Return one validation by the columns of a curve."""
    return dict(zip(SCORE_COLUMNS, score, strict=True))


def story_data(story: "Story", beliefs: "Beliefs | None") -> dict[str, Any]:
    """Return the document: dates as ISO texts, null for what is no finite number.

    `recommendation` is what was stored when the sweep ended, `answer` what the curves say now; without beliefs it is
    null, as are the trials' bands. All GPU-hours of points are those of the trial's own training.
    """
    known = sweep_data(story.picture) | {
        "created_at": story.created_at,
        "read_at": story.read_at,
        "budget_gpu_hours": story.budget_gpu_hours,
        "final_gpu_hours": story.final_gpu_hours,
        "target_gpu_hours": story.target_gpu_hours,
        "answer": beliefs.recommended.to_dict() if beliefs and beliefs.recommended else None,
        "why_no_answer": beliefs.why_not if beliefs else None,
        "trials": [
            trial_data(trial)
            | {
                "band": beliefs.bands.get(trial.id) if beliefs else None,
                "collapsed_from_gpu_hours": beliefs.cuts.get(trial.id) if beliefs else None,
            }
            for trial in story.picture.trials
        ],
        "flags": story.flags,
        "segments": story.stretches,
        "charges": story.charges,
        "decision_log": story.decisions,
        "cells": story.cells,
        "assumptions": story.assumptions,
    }
    document: dict[str, Any] = plain(known)
    return document
