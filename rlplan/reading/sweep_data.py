"""The picture of a sweep as plain data, for JSON and CSV."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from planner.store.records import RankedRow
from rlplan.reading.points import Score
from rlplan.reading.sweep_picture import Hold, Money, Picture, StoredAnswer, TrialRow

if TYPE_CHECKING:
    from rlplan.reading.story import Beliefs, Story

RANKING_COLUMNS = tuple(field for field in RankedRow.__dataclass_fields__ if field != "axes")
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
TRIAL_COLUMNS = tuple(_TRIAL)
SCORE_COLUMNS = ("step", "gpu_hours", "score", "score_standard_error")


def sweep_data(picture: Picture) -> dict[str, Any]:
    """Return the document that `sweep` and `status` print as JSON."""
    driver = picture.driver
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
        "driver": None if driver is None else asdict(driver),
        "paused_since": None if picture.paused_since is None else picture.paused_since.isoformat(),
        "hold": None if picture.hold is None else hold_data(picture.hold),
        "recommendation": None if picture.answer is None else answer_data(picture.answer),
        "ranking": [with_axes(asdict(row)) for row in picture.answer.ranking] if picture.answer else [],
        "trials": [trial_data(trial) for trial in picture.trials],
        "decisions": picture.decisions,
        "last_decisions": [each.told() for each in picture.last_decisions],
        "learnt_from": None if picture.learnt_from is None else asdict(picture.learnt_from),
        "stored_at": picture.config.get("storage"),
        "failures": {kind: len(trials) for kind, trials in picture.failures.items()},
    }


def hold_data(hold: Hold) -> dict[str, Any]:
    """Return who asked for a pause or a stop, and whether the driver has taken it."""
    taken_at = None if hold.taken_at is None else hold.taken_at.isoformat()
    return {"kind": hold.kind.value, "by": hold.by, "asked_at": hold.asked_at.isoformat(), "taken_at": taken_at}


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
    values = {name: value for name, value in asdict(answer).items() if name != "ranking"}
    return with_axes(values | {"made_at": answer.made_at.isoformat(), "so_far": answer.so_far})


def with_axes(data: dict[str, Any]) -> dict[str, Any]:
    """Return data of a row with its axes as an object, and without the key where there are none."""
    axes = dict(data.pop("axes", ()))
    return data | ({"axes": axes} if axes else {})


def trial_row(trial: TrialRow) -> dict[str, Any]:
    """Return one trial as a flat row."""
    return {name: of(trial) for name, of in _TRIAL.items()}


def trial_data(trial: TrialRow) -> dict[str, Any]:
    """Return one trial with its curve."""
    forecast = trial.forecast
    return with_axes(trial_row(trial) | {"axes": trial.axes}) | {
        "verdict": forecast.verdict if forecast else None,
        "level": forecast.level if forecast else None,
        "target_gpu_hours": forecast.target_gpu_hours if forecast else None,
        "expected_at": forecast.at.isoformat() if forecast and forecast.at else None,
        "failure_tail": trial.failure_tail,
        "points": [score_row(score) for score in trial.scores],
    }


def score_row(score: Score) -> dict[str, Any]:
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
                "band": _row(beliefs.bands[trial.id]) if beliefs and trial.id in beliefs.bands else None,
                "collapsed_from_gpu_hours": beliefs.cuts.get(trial.id) if beliefs else None,
            }
            for trial in story.picture.trials
        ],
        "flags": [_row(each) for each in story.flags],
        "segments": [_row(each) for each in story.stretches],
        "charges": [_row(each) for each in story.charges],
        "decision_log": [_row(each) for each in story.decisions],
        "cells": [_row(each) for each in story.cells],
        "assumptions": [_row(each) for each in story.assumptions],
    }
    return {name: _plain(value) for name, value in known.items()}


def _row(row: Any) -> dict[str, Any]:
    """Return a dataclass by its fields; what is in them is not copied, since that takes long for many rows."""
    return with_axes({name: getattr(row, name) for name in row.__dataclass_fields__})


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, StrEnum) else value
