"""Where a trainer's metrics appear: files that grow, TensorBoard's events, what it prints; each from where it began."""

import csv
import glob
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner.trainers.command.options import CLOCK, ERROR, LENGTH, SCORE, STEP_COLUMN, MetricsOptions
from runner.trainers.driver import Reading
from runner.trainers.metric_lines import Lines

Rows = Callable[[], Iterable[Mapping[str, Any]]]  # what is new in a file
EVENTS = "events.out.tfevents*"


def reading_of(row: Mapping[str, Any], names: Mapping[str, str]) -> Reading | None:
    """Return what a row says, by our names of its columns; None where it names no step."""
    numbers = {ours: number for theirs, ours in names.items() if (number := _number(row.get(theirs))) is not None}
    step = numbers.pop(STEP_COLUMN, None)
    if step is None or step < 0 or not step.is_integer():  # which inf and NaN are not
        return None
    score, error, length, clock = (numbers.pop(name, None) for name in (SCORE, ERROR, LENGTH, CLOCK))
    return Reading(int(step), score, error, length, clock, numbers)


class FilesSource:
    """Files by a pattern, which may appear while they are waited for; what was there before is passed over."""

    def __init__(self, pattern: str, before: Mapping[str, int], metrics: MetricsOptions) -> None:
        """`before` has the bytes of the files that there were before an attempt, by their paths."""
        self._pattern, self._before, self._metrics = pattern, before, metrics
        self._names = metrics.names
        self._files: dict[str, Rows] = {}
        self.columns: dict[str, None] = {}  # that were read, in their order

    def read(self) -> list[Reading]:
        """Return what is new in all of them."""
        for path in existing(self._pattern):
            if path not in self._files:
                self._files[path] = _rows_of(Path(path), self._before.get(path, 0), self._metrics)
        rows = [row for new in self._files.values() for row in new()]
        self.columns.update(dict.fromkeys(name for row in rows for name in row))
        return [reading for row in rows if (reading := reading_of(row, self._names)) is not None]


def existing(pattern: str) -> list[str]:
    """Return the files of a pattern, in the order of their names."""
    return sorted(path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path))


def _rows_of(path: Path, begin: int, metrics: MetricsOptions) -> Rows:
    """Return what reads on in a file, from a byte on: its rows, by the trainer's names of their columns."""
    if metrics.format == "tensorboard":
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

        if begin:  # each start of a trainer opens a file of its own
            return list
        loader = EventFileLoader(str(path))
        return lambda: (row for event in loader.Load() for row in _scalars(event))
    lines, heading, patterns = Lines(path, begin), _Heading(path, begin), metrics.patterns
    if metrics.format == "csv":
        return lambda: heading.rows(lines.new())
    if metrics.format == "console":
        return lambda: (
            match.groupdict() for line in lines.new() for expression in patterns if (match := expression.search(line))
        )
    return lambda: (_flat(row) for line in lines.new() if (row := _object(line)) is not None)


class BeganSource:
    """The printed line with which start-up is over."""

    def __init__(self, log: Path, pattern: str, step: int) -> None:
        self._lines, self._pattern, self._step = Lines(log), re.compile(pattern), step

    def read(self) -> list[Reading]:
        """Return that it stands at its first step, once it has said so."""
        return [Reading(self._step) for line in self._lines.new() if self._pattern.search(line)][:1]


class _Heading:
    """The names of a table's columns, which a file that was begun before has in its first line too."""

    def __init__(self, path: Path, begin: int) -> None:
        self._names: list[str] | None = None
        if begin:
            with suppress(OSError), path.open(encoding="utf-8", newline="") as file:
                self._names = next(csv.reader(file), None)

    def rows(self, lines: Sequence[str]) -> Iterator[dict[str, str]]:
        for cells in csv.reader(lines):
            if self._names is None:
                self._names = cells
            elif cells != self._names:
                yield dict(zip(self._names, cells, strict=False))


def _scalars(event: Any) -> Iterator[dict[str, Any]]:
    from tensorboard.util.tensor_util import make_ndarray

    for value in event.summary.value:
        array = make_ndarray(value.tensor)
        if array.size == 1 and array.dtype.kind in "fiu":
            # Last, so that a tag of these names is no step and no clock.
            yield {value.tag: float(array.reshape(())), STEP_COLUMN: event.step, CLOCK: event.wall_time}


def _object(line: str) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        row = json.loads(line)
        return row if isinstance(row, dict) else None
    return None


def _flat(row: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}/")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _number(value: object) -> float | None:
    """Return a number, NaN too; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    with suppress(ValueError, OverflowError):
        return float(value)
    return None
