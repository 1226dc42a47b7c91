"""What our own programs in a trainer's interpreter write of its steps: a line of JSON each, with the trainer's names.

`{"step", "at_seconds"}` alone says that start-up is over and where it stands. `logs` are the trainer's own numbers,
`seconds` what was timed beside them, `scores` the validation: the scores of each problem's samples; `metrics` have our
names already.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from planner.logs.series import ours_of
from planner.logs.trainers import WHOLE_STEP, Trainer
from planner.metrics import mean_over
from runner.trainers.driver import Reading

_POINT_FIELDS = ("response_tokens", "rollouts", "tokens_so_far", "output_tokens")  # fields of a point


def readings(line: str, trainer: Trainer, updates: int = 1) -> list[Reading]:
    """Return what a line says, where each of the trainer's steps is so many updates; a torn one says nothing."""
    with suppress(ValueError, KeyError, TypeError):
        row: Mapping[str, Any] = json.loads(line)
        numbers = {name: float(value) for name, value in row.get("logs", {}).items() if isinstance(value, int | float)}
        ours, seconds = ours_of(trainer, numbers)
        seconds.pop(WHOLE_STEP, None)
        metrics = {name: value for name, value in ours.items() if name not in _POINT_FIELDS} | row.get("metrics", {})
        score = error = None
        if groups := row.get("scores"):
            score, error = mean_over([sum(group) / len(group) for group in groups])
            metrics |= further(groups)
        return [
            Reading(
                int(row["step"]) * updates,
                score,
                error,
                ours.get("response_tokens"),
                float(row["at_seconds"]),
                metrics,
                {**seconds, **row.get("seconds", {})},
                whole=bool(row.get("whole")),
            )
        ]
    return []


def further(groups: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return what else a validation says: the share of problems that one sample, and that every sample, got right."""
    return {
        "validation_best": sum(map(max, groups)) / len(groups),
        "validation_worst": sum(map(min, groups)) / len(groups),
    }
