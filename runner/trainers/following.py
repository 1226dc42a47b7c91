"""Files that grow while they are read, line by line, and what the lines of our own programs mean.

`{"step", "at_seconds"}` alone says that start-up is over and where it stands. `logs` are the trainer's own numbers,
`seconds` what was timed beside them, `scores` the validation: the scores of each problem's samples; `metrics` have our
names already.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.logs.series import ours_of
from planner.logs.trainers import WHOLE_STEP, Trainer
from planner.metrics import mean_over
from runner.trainers.driver import Reading

_POINT_FIELDS = ("response_tokens", "rollouts", "tokens_so_far", "output_tokens")  # fields of a point


class Lines:
    """The lines that a file has gained since it was last looked at; it may not be there yet, or begin anew."""

    def __init__(self, path: Path, begin: int = 0) -> None:
        """Pass over the first `begin` bytes."""
        self._path = path
        self._read_bytes = begin
        self._half = b""

    def new(self) -> list[str]:
        """Return whole lines only: what is being written waits for its end."""
        with suppress(OSError), self._path.open("rb") as file:
            if self._path.stat().st_size < self._read_bytes:  # opened anew by the trainer
                self._read_bytes, self._half = 0, b""
            file.seek(self._read_bytes)
            added = file.read()
            self._read_bytes += len(added)
            *whole, self._half = (self._half + added).split(b"\n")
            return [line.decode("utf-8", errors="replace") for line in whole]
        return []


class LineSource:
    """Metrics in the lines of a file, by a function that knows what one means."""

    def __init__(self, path: Path, meaning: Callable[[str], Sequence[Reading]]) -> None:
        self._lines = Lines(path)
        self._meaning = meaning

    def read(self) -> list[Reading]:
        """Return what new lines say; one that says nothing is passed over."""
        return [reading for line in self._lines.new() for reading in self._meaning(line)]


def readings(line: str, trainer: Trainer, updates: int = 1) -> list[Reading]:
    """Return what a line says, where each of the trainer's steps is so many updates; a torn one says nothing."""
    with suppress(ValueError, KeyError, TypeError, OverflowError):
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
