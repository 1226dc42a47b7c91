"""A story and what is believed of it as one plain document, for files and for programs."""

import math
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from rlplan.reading.recommend_data import recommended_data
from rlplan.reading.story import Band, Beliefs, Story
from rlplan.reading.sweep_data import sweep_data, trial_data, with_axes


def story_data(story: Story, beliefs: Beliefs | None) -> dict[str, Any]:
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
        "answer": recommended_data(beliefs.recommended) if beliefs and beliefs.recommended else None,
        "why_no_answer": beliefs.why_not if beliefs else None,
        "trials": [
            trial_data(trial)
            | {
                "band": _band(beliefs.bands.get(trial.id)) if beliefs else None,
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


def _band(band: Band | None) -> dict[str, Any] | None:
    return None if band is None else _row(band)


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
